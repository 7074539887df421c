"""What is certified, whether it is true, and what others can show of the same logs."""

import math
from statistics import fmean, stdev

from rendering.tables import load, table

NAMED = {
    "minigolf": "minigolf", "tanks30": "two tanks, 30 steps", "tanks60": "two tanks, 60 steps",
    "pendulum": "InvertedPendulum", "gridworld": "gridworld",
}  # fmt: skip
EDGE = ("equal", "a hair worse", "rare failure, declared")  # nulls at which an error is an error


def certificates(kind: str = "ladder", study: str = "certificate") -> dict[str, dict]:
    """Rows of the study, by log: of the ladder, of "noise alone", or of "markov"."""
    return {name: row[kind] for name, row in load(study)["results"].items()}


def certified(study: str = "certificate") -> str:
    """What is deployed, its true gain, and what of it noise alone would have been worth."""
    rows = []
    for name, one in certificates(study=study).items():
        problem, size = name.split("-")
        mean, error = beyond_noise(name, study)
        rows.append([
            f"{NAMED[problem]}, {int(size):,}", f"{one['deploys']} of {one['judgements']}",
            f"{one['gain']:.2f}", f"{one['bound']:.2f}", f"{one['of_learned']:.0%}",
            f"{one['of_old']:.0%}", f"{certificates('noise alone', study)[name]['gain']:.2f}",
            f"{mean:+.2f} ± {error:.2f}", above(one),
        ])  # fmt: skip
    header = ["log, episodes", "deploy said", "true gain", "its bound", "of what is learned",
              "of what 0.1.0 learned", "noise alone", "beyond noise, ± s.e.",
              "bounds above the truth"]  # fmt: skip
    return table(header, rows)


def above(row: dict) -> str:
    """Judgements with a bound above the truth, and limits by the first judgement of each log."""
    low, high = row["limits"]
    return f"{row['above']} ({low:.1%} to {high:.1%})"


def above_in_all(kind: str = "ladder") -> str:
    """The same over all logs, as "3 of 90"."""
    rows = certificates(kind).values()
    return f"{sum(row['above'] for row in rows)} of {sum(row['judgements'] for row in rows)}"


def refused(*names: str, study: str = "certificate") -> str:
    """Bounds above the truth, of rungs that were refused: as "3 of 90"."""
    rows = [certificates(study=study)[name] for name in names]
    return f"{sum(row['refused_above'] for row in rows)} of {sum(row['refused'] for row in rows)}"


def if_markov() -> str:
    """The same with --assume markov."""
    rows = [
        [f"{NAMED[name.split('-')[0]]}, {int(name.split('-')[1]):,}",
         f"{one['deploys']} of {one['judgements']}", f"{one['gain']:.2f}", f"{one['bound']:.2f}",
         f"{one['of_learned']:.0%}", f"{one['of_old']:.0%}", above(one)]
        for name, one in certificates("markov").items()
    ]  # fmt: skip
    header = ["log, episodes", "deploy said", "true gain", "its bound", "of what is learned",
              "of what 0.1.0 learned", "bounds above the truth"]  # fmt: skip
    return table(header, rows)


def beyond_noise(name: str, study: str = "certificate") -> tuple[float, float]:
    """Certified gain less that of the ladder whose mean stays, and its standard error over logs."""
    both = (certificates(kind, study)[name]["by_log"] for kind in ("ladder", "noise alone"))
    pairs = zip(*both, strict=True)
    apart = [one - other for one, other in pairs]
    return fmean(apart), stdev(apart) / math.sqrt(len(apart))


def wrongly_deployed() -> str:
    """Deploys of what is no better, by kind."""
    content = load("false_deploys")
    trials, rows = content["settings"]["trials"], []
    for row in content["results"].values():
        low, high = row["limits"]
        unseen = "" if row["unseen"] is None else f"{row['unseen']:.2g}"
        rows.append([row["null"], str(row["episodes"]), f"{row['gain']:.3g}",
                     f"{row['deploys']} ({row['deploys'] / trials:.1%})",
                     f"{low:.1%} to {high:.1%}", unseen])  # fmt: skip
    header = ["null", "episodes", "true gain", "deploy said", "99 % limits",
              "loss not excluded"]  # fmt: skip
    return table(header, rows)


def nulls(*kinds: str) -> tuple[int, int]:
    """False deploys and trials, of some kinds of nulls or of all."""
    content = load("false_deploys")
    rows = [row for row in content["results"].values() if not kinds or row["null"] in kinds]
    return sum(row["deploys"] for row in rows), content["settings"]["trials"] * len(rows)


def edge() -> tuple[int, int]:
    """The same of the nulls at which an error is an error."""
    return nulls(*EDGE)


def shown_by_others() -> str:
    """Logs of which a better policy is deployed, and its mean gain: ours, HCPI, SPIBB."""
    content = load("safe_improvement")
    sizes, logs = list(content["results"]), content["settings"]["logs"]
    rows = [
        [name, *(f"{row[name]['better']} of {row[name]['deploys']}, {row[name]['gain']:+.2f}"
                 for row in content["results"].values())]
        for name in content["results"][sizes[0]]
    ]  # fmt: skip
    return table([f"of {logs} logs each", *(f"{int(size):,} episodes" for size in sizes)], rows)
