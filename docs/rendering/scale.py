"""Show cost by size, drawn pairs, faults, and the cost of 10⁹ and 10¹² transitions."""

from rendering.tables import RESULTS, load, spread, table

# Assumptions of the plan; docs/scale.md.in explains each.
CORES, SHARE, PRICE, ITERATIONS, BYTES, PASSES, DISK = 64, 0.8, 0.04, 100, 48, 3, 10e9
M, H = 10, 50


def drawn() -> str:
    """Tabulate cost and cosine by the share of pairs drawn."""
    near = load("drawn")["results"]["near"]
    rows = [
        [
            f"{100 * float(name):g}%",
            f"{100 * near['cost'][name]:.2f}%",
            f"{sum(each) / len(each):.4f}",
            f"{min(each):.4f}",
            f"{near['noise'][name]['of_one']:.1f}",
        ]
        for name, each in near["cosines"].items()
    ]
    header = ["pairs with a Q", "cost of an iteration", "cosine", "lowest", "noise of one pair"]
    return table(header, rows)


def streamed_default() -> str:
    """What the default takes of a log on disk."""
    rows = [
        [
            f"{problem}, {int(steps):,}",
            f"{row['iteration']:.2f} s",
            *(f"{row[name]['memory']:.2f} GiB" for name in ("train", "evaluate", "report")),
            f"{row['evaluate']['seconds']:.0f} s",
        ]
        for problem, found in load("streamed_default")["results"].items()
        for steps, row in found.items()
    ]
    header = ["log, steps", "iteration", "train", "evaluate", "report", "evaluate, processor"]
    return table(header, rows)


def draws() -> int:
    """Return the number of draws behind a cosine."""
    return len(next(iter(load("drawn")["results"]["near"]["cosines"].values())))


def drawn_said() -> str:
    """Say what else was measured about drawn pairs."""
    content = load("drawn")
    near, found = content["results"]["near"], content["results"]
    settings, pair = content["settings"], found["paired"]
    returns = found["returns"]
    return (
        f"The log has {near['transitions']:,} transitions. Two full passes with different rollout "
        f"noise have a cosine of {near['between_full_passes']:.4f}. On "
        f"{settings['trajectories']:,} episodes, a hundred times the paper's log, "
        f"{settings['iterations']} iterations return {spread(returns['full passes'])} with full "
        f"passes and {spread(returns['drawn'])} with drawn pairs ({settings['seeds']} runs, "
        f"mean ± std). The paired difference is {pair['mean']:+.3f}, with a standard error of "
        f"{pair['standard_error']:.3f}."
    )


def scale() -> str:
    """Tabulate time and memory by size."""
    found = load("scale")["results"]
    rows = []
    for where, label in (("memory", "in memory"), ("disk", "from disk")):
        for n, cell in found[where].items():
            each = f"{1e9 * cell['seconds'] / int(n):.0f}"
            peak = f"{cell['peak'] / 2**20:.0f}"
            rows.append([f"{int(n):,}", label, f"{cell['seconds']:.3g}", each, peak])
    return table(["transitions", "log", "seconds", "ns per transition", "peak MiB"], rows)


def scale_said() -> str:
    """Say how cost grows with size, and what two processes gain and send."""
    found = load("scale")["results"]
    memory, disk = found["memory"], found["disk"]
    first, last = next(iter(memory)), list(memory)[-1]
    ratio = memory[last]["seconds"] / int(last) / (memory[first]["seconds"] / int(first))
    speed = memory[last]["seconds"] / disk[last]["seconds"]
    said = (
        f"A transition costs {ratio:.2f} times as much among {int(last):,} as among "
        f"{int(first):,}. "
        f"Read from disk, the log is processed at {100 * speed:.0f}% of the speed in memory. The "
        "exponents of the cost are: "
        + ", ".join(f"{name} {value:.2f}" for name, value in found["exponents"].items())
        + "."
    )
    if "2" in found["processes"]:
        one, two = (found["processes"][k]["seconds"] for k in ("1", "2"))
        said += (
            f" Two processes, each on one core, are {one / two:.2f} times as fast as one "
            "(the swimmer's iteration: 20,000 steps, a 2×32 network fitted by 20 steps of Adam, "
            "M = 20, H = 25; the shortest of three rounds in turns). Bytes on the wire per "
            "iteration in two processes: "
        )
        said += ", ".join(
            f"{cell['wire']:,.0f} with {int(n):,} trajectories "
            f"({cell['collectives']['bytes']:,} of results in {cell['collectives']['count']} "
            "collectives)"
            for n, cell in found["wire"].items()
        )
        said += "."
    return said


def wire() -> float:
    """Return the kilobytes that two processes exchange per iteration, with the log in memory."""
    return max(cell["wire"] for cell in load("scale")["results"]["wire"].values()) / 1e3


def constants() -> tuple[float, float]:
    """Return the nanoseconds per transition without rollouts, and per model step."""
    found = load("scale")["results"]["rollouts"]
    (m0, first), *_, (m1, last) = found.items()
    steps, transitions = 2 * 10, 20_000  # V beside Q, H = 10
    step = (last["seconds"] - first["seconds"]) / (int(m1) - int(m0)) / steps / transitions
    rest = first["seconds"] / transitions - int(m0) * steps * step
    return 1e9 * max(rest, 0.0), 1e9 * step


def core_seconds(transitions: float, share: float) -> float:
    """Return the seconds of an iteration on one core of an otherwise idle machine."""
    rest, step = constants()
    return transitions * (PASSES * rest + share * step * 2 * M * H) / 1e9


def reading_limit(transitions: float = 1e12) -> float:
    """Return the number of processes, one per machine, above which reading takes longest."""
    reading = PASSES * transitions * BYTES / DISK
    return (core_seconds(transitions, 1.0) / CORES / SHARE / reading) ** 0.5


def plan() -> str:
    """Tabulate what an iteration needs."""
    rows = []
    for n, exponent in ((1e9, "10⁹"), (1e12, "10¹²")):
        for share, label in ((1.0, "all pairs"), (0.01, "1% of the pairs")):
            seconds = core_seconds(n, share)
            hours = ITERATIONS * seconds / SHARE / 3600
            machines = max(round(seconds / CORES / SHARE / 600), 1)
            rows.append(
                [
                    exponent,
                    label,
                    f"{n * BYTES / 1e9:,.0f} GB",
                    f"{n * share * 2 * M * H * 400 / 1e15:,.3g}",
                    f"{seconds / 3600:,.3g}",
                    f"{wire() * machines / 1e3:,.2g} MB",
                    f"{machines:,}",
                    f"{hours * PRICE:,.0f} $",
                ]
            )
    header = ["transitions", "gradient at", "log", "Pflop", "core hours", "network",
              "machines for 10 minutes", "100 iterations"]  # fmt: skip
    return table(header, rows)


def kills() -> str:
    """List what the fault study printed."""
    text = (RESULTS / "launch-kills.txt").read_text(encoding="utf-8")
    return "\n".join(f"- {line}" for line in text.splitlines())


def default_hours(command: str, steps: float) -> float:
    """Return the processor hours that a command of the default would take on a longer log."""
    rows = load("streamed_default")["results"]["hopper"]
    few, many = min(rows, key=int), max(rows, key=int)
    small, large = (rows[size][command]["seconds"] for size in (few, many))
    return (small + (large - small) / (int(many) - int(few)) * steps) / 3600
