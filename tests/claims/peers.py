"""Claims about gamps and d3rlpy, on several pages."""

from rendering import beside, peers
from rendering.peers import ahead_of, best_peer, cell, rivals
from rendering.tables import error, in_errors, load

from claims import verdicts
from claims.claim import says

GOLF, SWIM, LONG, POLE = "minigolf-50", "swimmer-100", "swimmer-1000", "pendulum-100"
ROBOTS = ("hopper", "cheetah", "reacher")


def above(log: str, *names: str) -> bool:
    """Return whether gamps ends above these peers, or above all that were run."""
    return all(ahead_of(log, name)["mean"] > 0 for name in names or rivals(log))


def surely_first(log: str) -> bool:
    """Return whether gamps ends above every peer by more than two standard errors."""
    return above(log) and in_errors(ahead_of(log, best_peer(log))) > 2


def seconds(log: str, name: str) -> float:
    """Return seconds of processor time."""
    return cell(log, name)["seconds"]


@says("results.md", "**Minigolf, 50 games:** gamps ends above all of them")
def first_on_minigolf() -> bool:
    return surely_first(GOLF)


@says("results.md", "gamps is *not* first")
def not_first_on_swimmer() -> bool:
    return -3 < ahead_of(SWIM, "td3bc")["mean"] < 0


@says("results.md", "lower than those of TD3+BC and IQL")
def its_worst_log_of_swimmer_is_worse() -> bool:
    return cell(SWIM, "ours")["least"] < min(cell(SWIM, name)["least"] for name in ("td3bc", "iql"))


@says("results.md", "on Hopper it ends below the controller on two of five logs")
@says("results.md", "On two it ends below")
def hopper_twice_ends_below_its_controller() -> bool:
    return peers.improved("hopper") == "3 of 5"


@says("results.md", "d3rlpy's algorithms were run on fewer logs than gamps")
@says("README.md", "the peers were run on fewer logs")
@says("index.md", "the peers were run on fewer logs")
@says("claims.md", "the other algorithms were run on fewer logs")
def robots_peers_have_fewer_logs() -> bool:
    return all(
        cell(log, name)["final"]["n"] < cell(log, "ours")["final"]["n"]
        for log in ROBOTS
        for name in rivals(log)
    )


@says("results.md", "where they were run, a quarter as many, and on one log")
def dear_peers_have_one_log() -> bool:
    dear = {"cql", "awac", "mopo", "combo"}
    return all(
        cell(log, name)["final"]["n"] == 1 for log in ROBOTS for name in {*rivals(log)} & dear
    )


@says("results.md", "On the robots BC, IQL, TD3+BC and ReBRAC make 10⁵ updates")
def updates_of_the_table() -> bool:
    return all(load("peers")["settings"]["steps"][log] == 100_000 for log in ROBOTS)


@says("results.md", "on Hopper the lead is within the noise")
@says("README.md", "on Hopper the lead is within the noise")
def hopper_is_not_surely_won() -> bool:
    return 0 < in_errors(ahead_of("hopper", best_peer("hopper"))) < 2


@says("results.md", "d3rlpy's algorithms end where they do with 100 episodes")
def peers_gain_nothing_of_a_longer_log() -> bool:
    ends = [[cell(log, name)["final"] for log in (SWIM, LONG)] for name in rivals(LONG)]
    return all(
        abs(one["mean"] - two["mean"]) < 2 * (error(one) ** 2 + error(two) ** 2) ** 0.5
        for one, two in ends
    )


@says("results.md", "which misled AWAC")
def awac_was_misled() -> bool:
    tried = load("peers")["settings"]["trials"]["swimmer"]["awac"]
    return cell(SWIM, "awac")["final"]["mean"] < max(trial["mean"] for trial in tried) / 2


@says("results.md", "**InvertedPendulum:** gamps ends above all of them")
def first_on_the_pendulum() -> bool:
    return above(POLE)


@says("results.md", "fewer seconds than CQL on minigolf, and than CQL and IQL on Swimmer")
def seconds_of_the_table() -> bool:
    faster = all(seconds(SWIM, "ours") < seconds(SWIM, name) for name in ("cql", "iql"))
    return faster and seconds(GOLF, "ours") < seconds(GOLF, "cql")


@says("peers.md", "on minigolf with 50 games gamps is first")
def peers_page_on_minigolf() -> bool:
    return surely_first(GOLF)


@says("peers.md", "on InvertedPendulum gamps is first")
def peers_page_on_the_pendulum() -> bool:
    return first_on_the_pendulum()


@says("peers.md", "That rule costs return on minigolf: CQL ends at")
def its_own_rule_costs_a_peer() -> bool:
    row = cell(GOLF, "cql")
    return row["chosen"]["mean"] < row["final"]["mean"] - 2 * error(row["final"])


@says("peers.md", "Fitted Q evaluation, theirs or ours, has the smallest error at every distance")
def fitted_q_on_the_peers_page() -> bool:
    return verdicts.fitted_q_is_nearest()


@says("peers.md", "has neither. Its version 1.1.1 had both")
def the_newer_version_has_no_model_based_learner() -> bool:
    return not {"MOPO", "COMBO"} & {name.upper() for name in beside.algorithms()}


@says("README.md", "log each of Hopper and HalfCheetah also MOPO and COMBO")
@says("index.md", "log each of Hopper and HalfCheetah MOPO and COMBO")
@says("peers.md", "we ran them on one log each of Hopper and HalfCheetah")
def model_based_peers_have_one_log_of_two_robots() -> bool:
    rows = load("peers")["results"]
    where = {log: [rows[log][name]["seeds"] for name in ("mopo", "combo") if name in rows[log]]
             for log in rows}  # fmt: skip
    return {log: seeds for log, seeds in where.items() if seeds} == {
        "hopper": [[0], [0]], "cheetah": [[0], [0]],
    }  # fmt: skip
