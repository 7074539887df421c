"""The comparison with d3rlpy on the same logs: who ends where, and at what cost."""

from rendering.tables import gap, in_errors, load, paired, spread, table, there

NAMES = {
    "minigolf-50": "minigolf, 50 games",
    "minigolf-500": "minigolf, 500 games",
    "minigolf-5000": "minigolf, 5,000 games",
    "swimmer-100": "Swimmer, 100 × 200 steps",
    "swimmer-1000": "Swimmer, 1,000 × 200 steps",
    "pendulum-100": "InvertedPendulum, 100 episodes",
    "tanks-100": "two tanks, 100 episodes",
    "hopper": "Hopper, 10⁵ steps",
    "cheetah": "HalfCheetah, 10⁵ steps",
    "reacher": "Reacher, 10⁵ steps",
}
RIVALS = ("bc", "iql", "cql", "td3bc", "awac", "rebrac")


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
    if n < 2:
        return f"{first}; gamps − {label} is {number['mean']:.4g} on one log"
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
        number = ahead_of(log, name)
        apart = gap(number) if number["n"] > 1 else f"{number['mean']:+.2f} (one log)"
        rows.append([NAMES[log], shown(cell(log, "ours")), other, apart])
    return table(["log", "gamps", "best peer", "gamps − it, paired, ± s.e."], rows)


def improved(log: str) -> str:
    """On how many logs gamps ends above the controller, both by their mean action."""
    ours, controller = cell(log, "ours"), cell(log, "behaviour")
    pairs = list(zip(ours["each"], controller["each"], strict=True))
    return f"{sum(one > other for one, other in pairs)} of {len(pairs)}"


def peers() -> str:
    """Every finished cell of the comparison."""
    rows = []
    for log, found in load("peers")["results"].items():
        for name, label in who().items():
            if name not in found or name == "truth":
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
        columns = [
            f"{who()[name]} {gap(number)}"
            if number["n"] > 1
            else f"{who()[name]} {number['mean']:+.2f} (one log)"
            for name in others
            for number in [ahead_of(log, name)]
        ]
        rows.append([log, "; ".join(columns)])
    return table(["log", "gamps - peer, paired by log, ± s.e."], rows)


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
