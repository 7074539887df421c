"""The comparison with d3rlpy on the same logs: who ends where, and at what cost."""

import math

from rendering.tables import gap, in_errors, load, paired, spread, table, there

NAMES = {
    "minigolf-50": "minigolf, 50 games",
    "minigolf-500": "minigolf, 500 games",
    "minigolf-5000": "minigolf, 5,000 games",
    "swimmer-100": "Swimmer, 100 × 200 steps",
    "swimmer-1000": "Swimmer, 1,000 × 200 steps",
    "pendulum-100": "InvertedPendulum, 100 episodes",
}
RIVALS = ("bc", "iql", "cql", "td3bc", "awac")
VARIANTS = ("last", "β = 0", "β = 1", "quadratic", "network", "half")
LONGER = {"last": "the last iterate", "half": "half of the log"}


def who() -> dict[str, str]:
    """Names of those compared, ours in bold."""
    labels = load("peers")["settings"]["labels"]
    return labels | {"ours": f"**{labels['ours']}**"}


def cell(log: str, name: str) -> dict:
    """What one of them reached on a log."""
    return load("peers")["results"][log][name]


def logs() -> list[str]:
    """Logs on which gamps and a peer were run."""
    found = load("peers")["results"]
    return [log for log, rows in found.items() if "ours" in rows and rivals(log)]


def rivals(log: str) -> list[str]:
    """Peers that were run on a log."""
    return [name for name in RIVALS if name in load("peers")["results"][log]]


def ahead_of(log: str, name: str) -> dict[str, float]:
    """Ours less a peer's, on the logs that both were run on."""
    return paired(cell(log, "ours"), cell(log, name))


def best_peer(log: str) -> str:
    """The peer that ends highest beside gamps."""
    return min(rivals(log), key=lambda name: ahead_of(log, name)["mean"])


def standing(log: str) -> str:
    """Who is first on a log, and by how much."""
    name = best_peer(log)
    number, label = ahead_of(log, name), who()[name]
    n = number["n"]
    if number["mean"] == 0:
        return f"gamps and {label} end alike (on {n} logs)"
    first = "gamps is first" if number["mean"] > 0 else f"{label} is first"
    size = abs(in_errors(number))
    sure = f"{size:.1f} standard errors" if size < 100 else "the same on every log"
    return f"{first}; gamps − {label} is {gap(number)} on {n} logs, {sure}"


def staying_up(name: str, steps: float = 1000.0) -> str:
    """On how many of its logs a pendulum stays up to the end."""
    each = cell("pendulum-100", name)["each"]
    return f"{sum(value == steps for value in each)} of {len(each)}"


def headline() -> str:
    """One row a log: gamps, the best peer, and their difference."""

    def shown(row: dict) -> str:
        digits = 2 if abs(row["final"]["mean"]) < 10 else 1 if row["final"]["mean"] < 100 else 0
        return f"{spread(row['final'], digits)} ({row['final']['n']})"

    rows = []
    for log in logs():
        name = best_peer(log)
        other = f"{who()[name]}: {shown(cell(log, name))}"
        rows.append([NAMES[log], shown(cell(log, "ours")), other, gap(ahead_of(log, name))])
    return table(["log", "gamps", "best peer", "gamps − it, paired, ± s.e."], rows)


def cells_run() -> tuple[int, int]:
    """Trainings that were run, of those of the plan: gamps and five peers on every log."""
    content = load("peers")
    planned = content["settings"]["logs"]
    plan = sum(planned.values()) * (1 + len(RIVALS))
    run = sum(
        min(rows[name]["final"]["n"], planned[log])
        for log, rows in content["results"].items()
        for name in ("ours", *RIVALS)
        if name in rows
    )
    return run, plan


def not_run() -> str:
    """What of the plan is missing altogether, as a sentence."""
    missing = []
    for log, rows in load("peers")["results"].items():
        absent = [who()[name] for name in ("ours", *RIVALS) if name not in rows]
        if absent:
            everyone = len(absent) > len(RIVALS)
            missing.append(NAMES[log] + ("" if everyone else f" ({', '.join(absent)})"))
    return f"Not run at all: {'; '.join(missing)}." if missing else ""


def peers() -> str:
    """Every finished cell of the comparison."""
    rows = []
    for log, found in load("peers")["results"].items():
        for name, label in who().items():
            if name not in found:
                continue
            row = found[name]
            columns = [spread(row[k]) for k in ("final", "chosen", "best")]
            least, seconds = f"{row['least']:.2f}", f"{row['seconds']:.0f}"
            rows.append([log, label, str(row["final"]["n"]), *columns, least, seconds])
    header = ["log", "who", "logs", "final", "by its own rule", "best in truth", "least", "s"]
    return table(header, rows)


def trials(family: str, name: str) -> int:
    """How many settings were tried for a peer."""
    return len(load("peers")["settings"]["trials"][family][name])


def peer_trials() -> str:
    """Settings tried for each peer."""
    rows = []
    for family, by_algorithm in load("peers")["settings"]["trials"].items():
        for name, tried in by_algorithm.items():
            best = max(tried, key=lambda row: row["mean"])
            named = ", ".join(f"{k} {v}" for k, v in best["settings"].items()) or "defaults"
            means = ", ".join(f"{row['mean']:.1f}" for row in tried)
            rows.append([family, who()[name], means, named])
    return table(["problem", "peer", "mean of each trial", "chosen"], rows)


def nearest() -> str:
    """Our return less each other's, on the logs that both were run on."""
    rows = []
    for log, found in load("peers")["results"].items():
        if "ours" not in found:
            continue
        others = [name for name in ("behaviour", *RIVALS) if name in found]
        columns = [f"{who()[name]} {gap(ahead_of(log, name))}" for name in others]
        rows.append([log, "; ".join(columns)])
    return table(["log", "gamps - peer, paired by log, ± s.e."], rows)


def fixed(log: str, variant: str) -> dict | None:
    """The default with one decision taken away; nothing if fewer than two logs have it."""
    found = load("peers")["results"][log]
    source = found.get("ours" if variant == "last" else variant)
    if source is None or len(source["seeds"]) < 2:
        return None
    return {"seeds": source["seeds"], "each": source["each_last" if variant == "last" else "each"]}


def decision(log: str, variant: str) -> dict[str, float]:
    """The default less itself with one decision taken away, on the logs that both have."""
    return paired(cell(log, "ours"), fixed(log, variant))


def decisions() -> str:
    """The default beside each decision taken away, on the logs that both have."""
    rows = []
    for log in load("peers")["results"]:
        for variant in VARIANTS:
            other = fixed(log, variant)
            if other is None:
                continue
            label = LONGER.get(variant, variant)
            n, average = len(other["each"]), math.fsum(other["each"]) / len(other["each"])
            rows.append([log, label, str(n), f"{average:.2f}", gap(decision(log, variant))])
    header = ["log", "fixed", "logs", "return", "default - it (paired, ± s.e.)"]
    return table(header, rows)


def timing() -> str:
    """Training from a cold start beside the best peer's, if it was measured.

    docs/results/peers-timing.json holds, by log, `{"peer": "cql", "ours": {"processor": s},
    "theirs": {"processor": s}}` in its `results`.
    """
    if not there("peers-timing"):
        return ""
    rows = load("peers-timing")["results"].items()
    said = [
        f"{NAMES[log]} {row['ours']['processor']:.0f} s of the processor, "
        f"{who()[row['peer']]} {row['theirs']['processor']:.0f}"
        for log, row in rows
    ]
    return f" Measured, with compilation from nothing: {'; '.join(said)}."
