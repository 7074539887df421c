"""Show what is certified, whether it is true, and what other methods show on the same logs."""

import math
from statistics import fmean, stdev

from scipy.stats import beta

from rendering.tables import load, table

NAMED = {
    "minigolf": "minigolf", "tanks30": "two tanks, 30 steps", "tanks60": "two tanks, 60 steps",
    "pendulum": "InvertedPendulum", "gridworld": "gridworld",
}  # fmt: skip
EDGE = ("equal", "a hair worse", "rare failure, declared")  # nulls where a deploy is an error


def certificates(kind: str = "ladder") -> dict[str, dict]:
    """Return rows of the study by log, for "ladder", "noise alone" or "markov"."""
    rows = load("certificate")["results"].items()
    return {name: row[kind] for name, row in rows if kind in row}


def log_of(name: str) -> str:
    """Name a log by its problem and its number of episodes."""
    problem, size = name.split("-")
    return f"{NAMED[problem]}, {int(size):,}"


def judged_logs(name: str, kind: str = "ladder") -> int:
    """Count the logs behind a row of the study."""
    return len(certificates(kind)[name]["by_log"])


def certified() -> str:
    """Tabulate deploys, their true gain, and the part of it that less noise alone would give."""
    rows = []
    for name, one in certificates().items():
        mean, error = beyond_noise(name)
        rows.append([
            log_of(name), str(judged_logs(name)), f"{one['deploys']} of {one['judgements']}",
            f"{one['gain']:.2f}", f"{one['bound']:.2f}", f"{one['of_learned']:.0%}",
            f"{one['of_old']:.0%}", f"{certificates('noise alone')[name]['gain']:.2f}",
            f"{mean:+.2f} ± {error:.2f}", above(one),
        ])  # fmt: skip
    header = ["log, episodes", "logs", "verdict deploy", "true gain", "bound",
              "share of learned gain", "of the gain from four fifths", "noise alone",
              "beyond noise, ± s.e.",
              "bounds above the truth"]  # fmt: skip
    return table(header, rows)


def above(row: dict) -> str:
    """Count bounds above the truth, with limits from the first judgement of each log."""
    low, high = row["limits"]
    return f"{row['above']} ({low:.1%} to {high:.1%})"


def above_in_all(kind: str = "ladder") -> str:
    """Count bounds above the truth over all logs, as "3 of 90"."""
    rows = certificates(kind).values()
    return f"{sum(row['above'] for row in rows)} of {sum(row['judgements'] for row in rows)}"


def above_at_first() -> str:
    """Count logs whose first judgement has a bound above the truth, with 95% limits of the share.

    The study keeps these counts as their limits (Clopper and Pearson).
    """
    hits = logs = 0
    for row in certificates().values():
        n = len(row["by_log"])
        highest = [beta.ppf(0.975, k + 1, n - k) for k in range(n)]
        hits += min(range(n), key=lambda k: abs(highest[k] - row["limits"][1]))
        logs += n
    low, high = beta.ppf(0.025, hits, logs - hits + 1), beta.ppf(0.975, hits + 1, logs - hits)
    return f"{hits} of {logs} logs (95% limits {low:.1%} to {high:.1%})"


def refused(*names: str) -> str:
    """Count bounds above the truth among refused rungs, as "3 of 90"."""
    rows = [certificates()[name] for name in names]
    return f"{sum(row['refused_above'] for row in rows)} of {sum(row['refused'] for row in rows)}"


def if_markov() -> str:
    """Tabulate the certificates with --assume markov."""
    rows = [
        [log_of(name),
         f"{one['deploys']} of {one['judgements']}", f"{one['gain']:.2f}", f"{one['bound']:.2f}",
         f"{one['of_learned']:.0%}", f"{one['of_old']:.0%}", above(one)]
        for name, one in certificates("markov").items()
    ]  # fmt: skip
    header = ["log, episodes", "verdict deploy", "true gain", "bound", "share of learned gain",
              "of the gain from four fifths", "bounds above the truth"]  # fmt: skip
    return table(header, rows)


def beyond_noise(name: str) -> tuple[float, float]:
    """Certified gain minus that of noise alone, and its standard error over logs."""
    both = (certificates(kind)[name]["by_log"] for kind in ("ladder", "noise alone"))
    pairs = zip(*both, strict=True)
    apart = [one - other for one, other in pairs]
    return fmean(apart), stdev(apart) / math.sqrt(len(apart))


def wrongly_deployed() -> str:
    """Tabulate deploys of policies that are no better, by kind."""
    content = load("false_deploys")
    trials, rows = content["settings"]["trials"], []
    for row in content["results"].values():
        low, high = row["limits"]
        unseen = "" if row["unseen"] is None else f"{row['unseen']:.2g}"
        rows.append([row["null"], str(row["episodes"]), f"{row['gain']:.3g}",
                     f"{row['deploys']} ({row['deploys'] / trials:.1%})",
                     f"{low:.1%} to {high:.1%}", unseen])  # fmt: skip
    header = ["null", "episodes", "true gain", "verdict deploy", "99% limits",
              "loss not excluded"]  # fmt: skip
    return table(header, rows)


def nulls(*kinds: str) -> tuple[int, int]:
    """Count false deploys and trials, for some kinds of nulls or for all."""
    content = load("false_deploys")
    rows = [row for row in content["results"].values() if not kinds or row["null"] in kinds]
    return sum(row["deploys"] for row in rows), content["settings"]["trials"] * len(rows)


def edge() -> tuple[int, int]:
    """Count false deploys and trials over the nulls where a deploy is an error."""
    return nulls(*EDGE)


def shown_by_others() -> str:
    """Tabulate deploys that are better, and the mean gain: ladder, HCPI, SPIBB."""
    content = load("safe_improvement")
    sizes, logs = list(content["results"]), content["settings"]["logs"]
    rows = [
        [name, *(f"{row[name]['better']} of {row[name]['deploys']}, {row[name]['gain']:+.2f}"
                 for row in content["results"].values())]
        for name in content["results"][sizes[0]]
    ]  # fmt: skip
    return table([f"{logs} logs per size", *(f"{int(size):,} episodes" for size in sizes)], rows)
