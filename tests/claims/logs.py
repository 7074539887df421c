"""Claims about logs as people have them."""

from rendering.logs import sepsis_deploys, sepsis_gap
from rendering.tables import load

from claims.claim import says


@says(
    "results.md",
    "The certified policy is better on every plant,",
    "but on one of the three the bound lies above the truth",
)
@says("results.md", "On the oven the bound lies above the truth")
def certified_policies_are_better() -> bool:
    rows = {row["log"]: row for row in load("users")["results"]}
    above = {name for name, row in rows.items() if row["bound"] > row["true"] > 0}
    return len(rows) == 3 and above == {"oven"} and all(row["true"] > 0 for row in rows.values())


@says(
    "results.md",
    "The default is ahead of every other learner that was run, by more than two standard errors",
)
def the_default_is_first_on_sepsis() -> bool:
    gaps = [sepsis_gap(size) for size in load("sepsis")["results"]]
    return len(gaps) >= 2 and all(gap > 2 * error for gap, error in gaps)


@says("results.md", "the whole gain from 5,000 episodes is a twentieth of the spread of a single")
def the_gain_is_small_beside_the_spread() -> bool:
    found = load("sepsis")
    values = found["results"]["5000"]["values"]["gamps"]
    gain, p = sum(values) / len(values) - found["expert"], found["expert"]
    return 0.04 < gain / (p * (1 - p)) ** 0.5 < 0.07


@says("gallery/sepsis.md", "Do not expect *deploy* from 500 patients")
def few_patients_seldom_certify() -> bool:
    return max(sepsis_deploys("500", assume) for assume in ("nothing", "markov")) < 0.1


@says("results.md", "With 5,000 episodes and nothing assumed, bounds lie above the gain more often")
def bounds_without_assumption_are_too_high_there() -> bool:
    trainings = load("sepsis")["results"]["5000"]["verdicts"]
    judged = [one for training in trainings for one in training["nothing"]]
    above = [one for one in judged if one["gain"] is not None and one["low"] > one["gain"]]
    return len(above) > len(judged) / 20
