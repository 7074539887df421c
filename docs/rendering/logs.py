"""Show logs as people have them, and a finite problem from a hospital."""

import math
from statistics import fmean, stdev

from rendering.tables import load, table

LOGS = {
    "oven": "end flags, no episode column", "ward": "four treatments with propensities",
    "pump": "two controllers, dates, gaps",
}  # fmt: skip


def of_users() -> str:
    """Tabulate the verdict, its bound, and the true gain on the plant."""
    rows = [
        [f"{row['log']}: {LOGS[row['log']]}", row["verdict"], f"{row['bound']:.3g}",
         f"{row['true']:.3g} ± {row['error']:.1g}", f"{row['controller']:.3g}"]
        for row in load("users")["results"]
    ]  # fmt: skip
    return table(["log", "verdict", "bound", "true gain, ± s.e.", "controller's return"], rows)


def sepsis_values(size: str) -> dict[str, list[float]]:
    """Return exact values by learner, one per log."""
    return load("sepsis")["results"][size]["values"]


def sepsis_gap(size: str) -> tuple[float, float]:
    """Return the lead of gamps over the next learner, and its standard error."""
    values = sepsis_values(size)
    others = [x for who, x in values.items() if who != "gamps"]
    best = max(others, key=fmean)
    errors = [stdev(x) / math.sqrt(len(x)) for x in (values["gamps"], best)]
    return fmean(values["gamps"]) - fmean(best), math.hypot(*errors)


def sepsis() -> str:
    """Tabulate exact values, mean ± standard deviation over logs, with their number."""
    sizes = list(load("sepsis")["results"])
    values = {size: {_short(who): x for who, x in sepsis_values(size).items()} for size in sizes}
    rows = []
    for who in dict.fromkeys(who for size in sizes for who in values[size]):
        rows.append([who, *(_spread(values[size].get(who, [])) for size in sizes)])
    leads = (sepsis_gap(size) for size in sizes)
    rows.append(["lead of gamps, ± s.e.", *(f"{gap:+.4f} ± {error:.4f}" for gap, error in leads)])
    return table(["", *(f"{int(size):,} episodes" for size in sizes)], rows)


def sepsis_verdicts() -> str:
    """Tabulate what fresh episodes said of trainings on half of a log, against exact values."""
    rows = []
    for size, found in load("sepsis")["results"].items():
        for assume in ("nothing", "markov") if found["verdicts"] else ():
            trainings = [one for one in found["verdicts"] if assume in one]
            if not trainings:
                continue
            judged = [one for training in trainings for one in training[assume]]
            deployed = [one for one in judged if one["word"] == "deploy"]
            gains = [one["gain"] for one in deployed]
            rows.append([
                f"{int(size):,}", assume, f"{len(judged)}",
                f"{fmean(one['learned'] for one in trainings):+.4f}",
                f"{len(deployed) / len(judged):.1%}", f"{fmean(gains):+.4f}" if gains else "",
                f"{sum(gain <= 0 for gain in gains)}",
                f"{sum(one['low'] > one['gain'] for one in deployed)}",
            ])  # fmt: skip
    header = ["episodes", "assumed", "judgements", "learned, gain", "deploy", "deployed, gain"]
    return table([*header, "false deploys", "bounds above the gain"], rows)


def sepsis_deploys(size: str, assume: str) -> float:
    """Return the share of judgements that say *deploy*."""
    trainings = load("sepsis")["results"][size]["verdicts"]
    words = [one["word"] for training in trainings for one in training.get(assume, [])]
    return words.count("deploy") / len(words)


def sepsis_limit(size: str, name: str) -> float:
    """Return the mean over logs of what `benchmarks.sepsis.limit` kept."""
    kept = load("sepsis-limit")["results"][size][name]
    return fmean(kept) if isinstance(kept, list) else kept


def sepsis_deviation() -> float:
    """Return the standard deviation of a return under the expert: it is 0 or 1."""
    alive = load("sepsis")["expert"]
    return math.sqrt(alive * (1 - alive))


def _spread(values: list[float]) -> str:
    return f"{fmean(values):.4f} ± {stdev(values):.4f} ({len(values)})" if values else ""


def _short(who: str) -> str:
    """Without its settings; a name that needs no explanation."""
    return {"cloning": "frequencies of the log"}.get(who, who.split(",")[0])
