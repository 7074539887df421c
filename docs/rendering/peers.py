"""Compare gamps with d3rlpy on the same logs: where each ends, and at what cost."""

from statistics import median

from rendering.tables import error, gap, in_errors, load, paired, spread, table, there

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
RIVALS = ("bc", "iql", "cql", "td3bc", "awac", "rebrac", "mopo", "combo")


def who() -> dict[str, str]:
    """Return the names of the learners compared, ours in bold."""
    labels = load("peers")["settings"]["labels"]
    return labels | {"ours": f"**{labels['ours']}**"}


def cell(log: str, name: str) -> dict:
    """Return what one learner reached on a log."""
    return load("peers")["results"][log][name]


def logs() -> list[str]:
    """Return the logs on which gamps and a peer were run."""
    found = load("peers")["results"]
    return [log for log, rows in found.items() if "ours" in rows and rivals(log)]


def rivals(log: str) -> list[str]:
    """Return the peers that were run on a log."""
    return [name for name in RIVALS if name in load("peers")["results"][log]]


def ahead_of(log: str, name: str) -> dict[str, float]:
    """Return our return minus a peer's, on the logs that both were run on."""
    return paired(cell(log, "ours"), cell(log, name))


def best_peer(log: str) -> str:
    """Return the peer that ends highest, of those with at least half as many logs as any."""
    shared = {name: ahead_of(log, name) for name in rivals(log)}
    most = max(number["n"] for number in shared.values())
    often = [name for name, number in shared.items() if 2 * number["n"] >= most]
    return min(often, key=lambda name: shared[name]["mean"])


def first_on(*, first: bool = True) -> str:
    """List the problems on all of whose logs gamps ends above every peer, or the others."""
    ends: dict[str, bool] = {}
    for log in logs():
        problem = NAMES[log].split(",")[0]
        ends[problem] = ends.get(problem, True) and ahead_of(log, best_peer(log))["mean"] > 0
    *some, last = [problem for problem, above in ends.items() if above is first]
    return f"{', '.join(some)} and {last}" if some else last


def ends(log: str, name: str) -> str:
    """Return where a learner ends on the first log."""
    row = cell(log, name)
    return f"{row['each'][row['seeds'].index(0)]:,.0f}"


def standing(log: str) -> str:
    """Say who is first on a log, and by how much."""
    name = best_peer(log)
    number, label = ahead_of(log, name), who()[name]
    n = number["n"]
    if number["mean"] == 0:
        return f"gamps and {label} end equal (on {n} logs)"
    first, second = ("gamps", label) if number["mean"] > 0 else (label, "gamps")
    if n < 2:
        return f"{first} is first, {abs(number['mean']):.4g} above {second} on one log"
    size = abs(in_errors(number))
    sure = f"{size:.1f} standard errors" if size < 100 else "the same on every log"
    apart = f"{abs(number['mean']):.2f} ± {error(number):.2f} above {second}"
    return f"{first} is first, {apart} on {n} logs, {sure}"


def harm_and_promises() -> str:
    """Tabulate logs on which a learned policy does harm, and how far its promises are off."""
    rows = []
    for name, row in load("promises")["results"]["logs"].items():
        n = len(cell(name, "ours")["seeds"])
        off = [abs(gap) for gap in row["gaps"]]
        rows.append([
            NAMES[name], *(f"{row['failed'][way]} of {n}" for way in ("with noise", "mean action")),
            f"{median(off):.0%}", f"{sum(gap > 0 for gap in row['gaps'])} of {len(off)}",
        ])  # fmt: skip
    header = ["log", "harm, as handed out", "harm, mean action", "promise off by, median",
              "promised too much"]  # fmt: skip
    return table(header, rows)


def harmed(way: str) -> int:
    """Count the logs on which the learned policy does harm, acting in this way."""
    return sum(row["failed"][way] for row in load("promises")["results"]["logs"].values())


def learned_from() -> int:
    """Count the logs behind harm and promises."""
    return sum(len(cell(name, "ours")["seeds"]) for name in load("promises")["results"]["logs"])


def staying_up(name: str, steps: float = 1000.0) -> str:
    """Count the logs on which a pendulum stays up to the end, as "7 of 10"."""
    each = cell("pendulum-100", name)["each"]
    return f"{sum(value == steps for value in each)} of {len(each)}"


def headline() -> str:
    """Tabulate gamps, the best peer and their difference, one row per log."""

    def shown(row: dict) -> str:
        digits = 2 if abs(row["final"]["mean"]) < 10 else 1 if row["final"]["mean"] < 100 else 0
        one = row["final"]
        if one["n"] == 1:
            return f"{one['mean']:.{digits}f} (1)"
        return f"{spread(one, digits)} ({one['n']})"

    rows = []
    for log in logs():
        name = best_peer(log)
        other = f"{who()[name]}: {shown(cell(log, name))}"
        number = ahead_of(log, name)
        apart = gap(number) if number["n"] > 1 else f"{number['mean']:+.2f} (one log)"
        rows.append([NAMES[log], shown(cell(log, "ours")), other, apart])
    return table(["log", "gamps", "best peer", "gamps − peer on the same logs, ± s.e."], rows)


def improved(log: str) -> str:
    """Count the logs on which gamps ends above the controller, both by their mean action."""
    ours, controller = cell(log, "ours"), cell(log, "behaviour")
    pairs = list(zip(ours["each"], controller["each"], strict=True))
    return f"{sum(one > other for one, other in pairs)} of {len(pairs)}"


def peers() -> str:
    """Tabulate every finished cell of the comparison."""
    rows = []
    for log, found in load("peers")["results"].items():
        for name, label in who().items():
            if name not in found or name == "truth":
                continue
            row = found[name]
            columns = [spread(row[k]) for k in ("final", "chosen", "best")]
            least, seconds = f"{row['least']:.2f}", f"{row['seconds']:.0f}"
            rows.append([log, label, str(row["final"]["n"]), *columns, least, seconds])
    header = ["log", "learner", "logs", "final", "by its own rule", "best in truth", "worst", "s"]
    return table(header, rows)


def trials(family: str, name: str) -> int:
    """Return the number of settings that were tried for a peer."""
    return len(load("peers")["settings"]["trials"][family][name])


def peer_trials() -> str:
    """Tabulate the settings tried for each peer."""
    rows = []
    for family, by_algorithm in load("peers")["settings"]["trials"].items():
        for name, tried in by_algorithm.items():
            best = max(tried, key=lambda row: row["mean"])
            named = ", ".join(f"{k} {v}" for k, v in best["settings"].items()) or "defaults"
            means = ", ".join(f"{row['mean']:.1f}" for row in tried)
            rows.append([family, who()[name], means, named])
    return table(["problem", "peer", "mean of each trial", "chosen"], rows)


def nearest() -> str:
    """Tabulate our return minus each peer's, on the logs that both were run on."""
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
    return table(["log", "gamps − peer, paired by log, ± s.e."], rows)


def timing() -> str:
    """Say how long training takes from a cold start, ours and the best peer's, if measured.

    docs/results/peers-timing.json holds, by log, `{"peer": "cql", "ours": {"processor": s},
    "theirs": {"processor": s}}` in its `results`.
    """
    if not there("peers-timing"):
        return ""
    rows = load("peers-timing")["results"].items()
    said = [
        f"{NAMES[log]}: gamps {row['ours']['processor']:.0f} s of processor time, "
        f"{who()[row['peer']]} {row['theirs']['processor']:.0f}"
        for log, row in rows
    ]
    return f" Measured, including all compilation: {'; '.join(said)}."
