"""What is said of gamps beside d3rlpy, on several pages."""

from rendering import beside, peers
from rendering.peers import RIVALS, ahead_of, best_peer, cell, decision, rivals
from rendering.tables import error, in_errors, load

from claims import verdicts
from claims.claim import says

GOLF, SWIM, LONG, POLE = "minigolf-50", "swimmer-100", "swimmer-1000", "pendulum-100"


@says("results.md", "none of this is sure (two standard errors)")
def the_held_out_half_costs_little() -> bool:
    return all(0 < in_errors(decision(log, "half")) < 2 for log in (GOLF, SWIM, POLE))


def above(log: str, *names: str) -> bool:
    """Whether gamps ends above these peers, or above all that were run."""
    return all(ahead_of(log, name)["mean"] > 0 for name in names or rivals(log))


def surely_first(log: str) -> bool:
    """Whether it does so by two standard errors and more."""
    return above(log) and in_errors(ahead_of(log, best_peer(log))) > 2


def seconds(log: str, name: str) -> float:
    """Of the processor."""
    return cell(log, name)["seconds"]


def variants() -> list[str]:
    """Decisions that were taken away on minigolf."""
    return [variant for variant in peers.VARIANTS if peers.fixed(GOLF, variant)]


@says("results.md", "**Minigolf, 50 trajectories:** gamps ends above every peer")
def first_on_minigolf() -> bool:
    return surely_first(GOLF)


@says("results.md", "the same search ends about where it does with the fitted one")
def the_true_game_ends_alike() -> bool:
    ours, truth = cell(GOLF, "ours")["final"], cell(GOLF, "truth")["final"]
    return abs(ours["mean"] - truth["mean"]) < 2 * (error(ours) ** 2 + error(truth) ** 2) ** 0.5


@says("results.md", "gamps ends first again")
def first_on_the_longer_logs() -> bool:
    return surely_first("minigolf-500") and surely_first("minigolf-5000")


@says("results.md", "gamps is *not* first")
@says("results.md", "ends a little higher, IQL and CQL about where gamps does")
def not_first_on_swimmer() -> bool:
    like = all(in_errors(ahead_of(SWIM, name)) > -2 for name in ("iql", "cql"))
    return -3 < ahead_of(SWIM, "td3bc")["mean"] < 0 and like


@says("results.md", "higher than those of TD3+BC and IQL")
def its_worst_log_of_swimmer_is_better() -> bool:
    return cell(SWIM, "ours")["least"] > max(cell(SWIM, name)["least"] for name in ("td3bc", "iql"))


@says("results.md", "gamps is behind TD3+BC, IQL and CQL")
@says("results.md", "and ends lower than with a tenth of the log")
@says("peers.md", "TD3+BC, IQL and CQL all end higher than gamps")
def behind_on_the_longer_log_of_swimmer() -> bool:
    lower = cell(LONG, "ours")["final"]["mean"] < cell(SWIM, "ours")["final"]["mean"]
    return lower and all(ahead_of(LONG, name)["mean"] < 0 for name in ("td3bc", "iql", "cql"))


@says("results.md", "Peers end where they do with 100")
def peers_gain_nothing_of_a_longer_log() -> bool:
    ends = [[cell(log, name)["final"] for log in (SWIM, LONG)] for name in RIVALS]
    return all(
        abs(one["mean"] - two["mean"]) < 2 * (error(one) ** 2 + error(two) ** 2) ** 0.5
        for one, two in ends
    )


@says("results.md", "which for AWAC misled")
def awac_was_misled() -> bool:
    tried = load("peers")["settings"]["trials"]["swimmer"]["awac"]
    return cell(SWIM, "awac")["final"]["mean"] < max(trial["mean"] for trial in tried) / 2


@says("results.md", "**InvertedPendulum:** gamps ends above every peer")
def first_on_the_pendulum() -> bool:
    return above(POLE)


@says("results.md", "fewer than CQL on minigolf, and than CQL and IQL on Swimmer")
def seconds_of_the_table() -> bool:
    faster = all(seconds(SWIM, "ours") < seconds(SWIM, name) for name in ("cql", "iql"))
    return faster and seconds(GOLF, "ours") < seconds(GOLF, "cql")


@says("results.md", "nothing shows that a better model alone would raise it")
def the_model_does_not_limit_swimmer() -> bool:
    return peers.decision(SWIM, "truth")["mean"] > 0


@says("results.md", "gamps and five peers on every log, were run")
@says("peers.md", "All of them were run")
def every_cell_was_run() -> bool:
    run, planned = peers.cells_run()
    return run == planned


@says("results.md", "the default loses to no fixed alternative by as much as two standard errors")
def no_decision_loses() -> bool:
    return all(in_errors(decision(GOLF, variant)) > -2 for variant in variants())


@says("results.md", "and the rest makes no difference that is sure")
def only_the_letter_costs() -> bool:
    return [v for v in variants() if abs(in_errors(decision(GOLF, v))) > 2] == ["β = 1"]


@says("results.md", "is what the default chose in every round of every log")
def network_and_likelihood_are_chosen_on_swimmer() -> bool:
    ours = cell(SWIM, "ours")["each"]
    return all(peers.fixed(SWIM, variant)["each"] == ours for variant in ("β = 0", "network"))


@says("results.md", "the network alone stays up on all logs")
@says("results.md", "does not always choose the network there")
def decisions_on_the_pendulum() -> bool:
    alike = zip(cell(POLE, "ours")["each"], cell(POLE, "network")["each"], strict=True)
    return set(cell(POLE, "network")["each"]) == {1000.0} and any(a != b for a, b in alike)


@says("results.md", "the model class is worth choosing against the quadratic one on Swimmer")
@says("results.md", "nothing here shows that choosing is better than the network alone")
@says("results.md", "nor that β is worth choosing against β = 0")
def what_is_worth_choosing() -> bool:
    logs = (GOLF, SWIM, POLE)
    sure = in_errors(decision(SWIM, "quadratic")) > 2
    return sure and all(decision(log, v)["mean"] <= 0 for log in logs for v in ("network", "β = 0"))


@says("README.md", "is first on minigolf and on the pendulum, and **not** on Swimmer")
def where_it_is_first() -> bool:
    golf = [log for log in peers.logs() if log.startswith("minigolf")]
    return all(map(above, golf)) and first_on_the_pendulum() and not_first_on_swimmer()


@says("index.md", "On Swimmer, TD3+BC ends a little higher")
def swimmer_is_better_elsewhere() -> bool:
    return not_first_on_swimmer()


@says("peers.md", "on minigolf with 50 games gamps is first")
def peers_page_on_minigolf() -> bool:
    return surely_first(GOLF)


@says("peers.md", "on InvertedPendulum gamps is first")
def peers_page_on_the_pendulum() -> bool:
    return first_on_the_pendulum()


@says("peers.md", "costs it on minigolf: CQL ends at")
def its_own_rule_costs_a_peer() -> bool:
    row = cell(GOLF, "cql")
    return row["chosen"]["mean"] < row["final"]["mean"] - 2 * error(row["final"])


@says("peers.md", "Fitted Q evaluation, theirs or ours, has the smallest error at every distance")
def fitted_q_on_the_peers_page() -> bool:
    return verdicts.fitted_q_is_nearest()


@says("peers.md", "has none of them, and we have run none")
def no_model_based_peer() -> bool:
    return not {"MOPO", "COMBO"} & {name.upper() for name in beside.algorithms()}
