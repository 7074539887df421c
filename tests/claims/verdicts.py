"""What is said of gradient-awareness, of off-policy evaluation and of its verdicts."""

from rendering.evaluation import ESTIMATES, aware, beyond, covered, judged, verdicts
from rendering.tables import load

from claims.claim import says


def means(row: dict[str, dict]) -> list[float]:
    """Of a row of the map."""
    return [weight["mean"] for weight in row.values()]


@says("results.md", "near the behaviour policy all weights give the same gradient")
def weights_are_alike_near_the_behaviour() -> bool:
    return all(max(means(row)) - min(means(row)) < 0.01 for row in aware(0.0))


@says("results.md", "maximum likelihood is best or within its interval of the best")
def likelihood_is_best_or_near() -> bool:
    rows = [(row["ML"], max(means(row))) for row in (*aware(0.5), *aware(1.0))]
    return all(best - ml["mean"] <= (ml["high"] - ml["low"]) / 2 for ml, best in rows)


@says("results.md", "Plain importance sampling covers less")
def plain_sampling_covers_less() -> bool:
    return covered("per-decision, student")[0] < covered("doubly robust, student")[0]


@says("results.md", "the estimate is too high, the dangerous side")
def its_misses_are_too_high() -> bool:
    cells = load("coverage")["results"]["cells"].values()
    misses = [cell["misses"]["per-decision, student"] for cell in cells]
    return all(miss["above"] > miss["below"] for miss in misses)


@says("results.md", "at the one policy that is worse than nearly everything logged")
def the_worst_policy_is_covered_least() -> bool:
    found = beyond("doubly robust, student")
    return min(found, key=found.get) == "gridworld-0"


@says("results.md", "The largest share is of the gridworld's worst policy")
def the_worst_policy_has_the_mildest_bound() -> bool:
    found = verdicts("fair")
    return max(found, key=found.get) == "gridworld-0"


@says("results.md", "the verdict rests on the doubly robust estimate and on no other")
def doubly_robust_covers_most() -> bool:
    return max(ESTIMATES, key=lambda name: covered(f"{name}, student")[0]) == "doubly robust"


@says("results.md", "guaranteed bounds (ratios cut off at four, empirical Bernstein) never missed")
def guaranteed_bounds_hold() -> bool:
    missed = load("coverage")["results"]["summary"]["guaranteed"]["misses"]
    return missed == 0 and covered("guaranteed") == (1.0, 1.0)


@says("results.md", "half of them to lose")
def half_are_worse() -> bool:
    return judged("worse") == judged("better")


@says("results.md", "has the smallest error of a point estimate, near and far")
def fitted_q_is_nearest() -> bool:
    rms = load("evaluation")["results"]["rms"]
    best = {min(rms, key=lambda name: rms[name][i]) for i in range(len(rms["d3rlpy FQE"]))}
    return best <= {"gamps fitted Q", "d3rlpy FQE"}


@says("results.md", "its numbers are ours to the digit")
def scope_rl_agrees() -> bool:
    rms = load("evaluation")["results"]["rms"]
    pairs = {
        "gamps per-decision": "SCOPE-RL pdis, bandwidth σ",
        "gamps self-normalised": "SCOPE-RL snpdis, bandwidth σ",
    }
    both = [(a, b) for x, y in pairs.items() for a, b in zip(rms[x], rms[y], strict=True)]
    return all(f"{a:.1f}" == f"{b:.1f}" for a, b in both)
