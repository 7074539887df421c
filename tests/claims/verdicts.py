"""Claims about gradient-awareness, off-policy evaluation and verdicts."""

from rendering.evaluation import ESTIMATES, aware, beyond, covered, verdicts
from rendering.tables import load

from claims.claim import says


def means(row: dict[str, dict]) -> list[float]:
    """Return the means of a row of the awareness study."""
    return [weight["mean"] for weight in row.values()]


@says("results.md", "near the logging policy all weights give the same gradient")
def weights_are_alike_near_the_behaviour() -> bool:
    return all(max(means(row)) - min(means(row)) < 0.01 for row in aware(0.0))


@says("results.md", "**Gradient-aware weights do not pay on minigolf**")
@says("results.md", "maximum likelihood is best or within its interval of the best")
def likelihood_is_best_or_near() -> bool:
    rows = [(row["ML"], max(means(row))) for row in (*aware(0.5), *aware(1.0))]
    return all(best - ml["mean"] <= (ml["high"] - ml["low"]) / 2 for ml, best in rows)


def on_the_grid(*kinds: str) -> list[dict[str, dict]]:
    """Return the rows of cosines on the gridworld."""
    return [row for d in (0.0, 0.5, 1.0) for row in aware(d, "-gridworld", *kinds)]


@says(
    "results.md",
    "the cosine is one with ω, with its root",
    "and with the norms of the scores alone",
)
@says("results.md", "The ratio alone is no better than likelihood")
def the_paper_s_class_needs_the_scores() -> bool:
    rows = on_the_grid("effects")
    aware_ones = all(row[w]["mean"] > 0.995 for row in rows for w in ("ω", "√ω", "score"))
    return aware_ones and all(row["ratio"]["mean"] <= row["ML"]["mean"] < 0.95 for row in rows)


@says("results.md", "Where the class can hold both, no weights make a difference")
def larger_classes_need_no_weights() -> bool:
    return all(max(means(row)) - min(means(row)) < 0.005 for row in on_the_grid("areas", "cells"))


@says("results.md", "likelihood loses a few hundredths")
def little_is_left_in_the_return() -> bool:
    rows = aware("return", "-gridworld", "effects")
    lost = [row["ω"]["mean"] - row["ML"]["mean"] for row in rows]
    return all(0.005 < loss < 0.05 for loss in lost)


@says("results.md", "the class decides and the weights do not")
def the_class_decides_on_swimmer() -> bool:
    kinds = ("linear", "quadratic", "network")
    at = [[x for row in aware(0.0, "-swimmer", kind) for x in means(row)] for kind in kinds]
    return max(at[0]) < 0.25 < min(at[1]) <= max(at[1]) < 0.85 < min(at[2])


@says("results.md", "has lost it, because few transitions are left to fit")
def half_way_the_ratio_loses_the_direction() -> bool:
    row = load("awareness-swimmer")["results"]["100"]["network"]["0.5"]
    kept = all(row[w]["low"] > 0 for w in ("ML", "score"))
    return kept and all(row[w]["mean"] < 0 for w in ("ratio", "ω", "√ω"))


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


@says("results.md", "is too high most often for the gridworld's worst policy")
@says("results.md", "The largest share belongs to the gridworld's worst policy")
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
