"""Cost by size, drawn pairs, faults, and what logs of 10⁹ and 10¹² transitions would take."""

from rendering.tables import RESULTS, load, spread, table

# What the plan assumes; docs/scale.md.in says what each is.
CORES, SHARE, PRICE, ITERATIONS, BYTES, PASSES, DISK = 64, 0.8, 0.04, 100, 48, 3, 10e9
M, H = 10, 50


def drawn() -> str:
    """Cost and cosine by share."""
    near = load("drawn")["results"]["near"]
    rows = [
        [
            f"{100 * float(name):g} %",
            f"{100 * near['cost'][name]:.2f} %",
            f"{sum(each) / len(each):.4f}",
            f"{min(each):.4f}",
            f"{near['noise'][name]['of_one']:.1f}",
        ]
        for name, each in near["cosines"].items()
    ]
    header = ["pairs with a Q", "cost of an iteration", "cosine", "least", "noise of one pair"]
    return table(header, rows)


def streamed_default() -> str:
    """What the default takes of a log on disk."""
    rows = [
        [
            f"{int(steps):,}",
            f"{row['iteration']:.2f} s",
            *(f"{row[name]['memory']:.2f} GiB" for name in ("train", "evaluate", "report")),
            f"{row['evaluate']['seconds']:.0f} s",
        ]
        for steps, row in load("streamed_default")["results"].items()
    ]
    header = ["steps", "iteration", "train", "evaluate", "report", "evaluate, processor"]
    return table(header, rows)


def draws() -> int:
    """How many a cosine was measured with."""
    return len(next(iter(load("drawn")["results"]["near"]["cosines"].values())))


def drawn_said() -> str:
    """What else was measured of draws."""
    content = load("drawn")
    near, found = content["results"]["near"], content["results"]
    settings, pair = content["settings"], found["paired"]
    returns = found["returns"]
    return (
        f"The log has {near['transitions']:,} transitions; two full passes with different noise of "
        f"rollouts have a cosine of {near['between_full_passes']:.4f}. On "
        f"{settings['trajectories']:,} episodes, a hundred times the paper's log, "
        f"{settings['iterations']} iterations of full passes return "
        f"{spread(returns['full passes'])}, "
        f"of drawn ones {spread(returns['drawn'])} ({settings['seeds']} runs, mean ± std); paired "
        f"{pair['mean']:+.3f} ± {pair['standard_error']:.3f}, standard error."
    )


def scale() -> str:
    """Time and memory by size."""
    found = load("scale")["results"]
    rows = []
    for where, label in (("memory", "in memory"), ("disk", "from disk")):
        for n, cell in found[where].items():
            each = f"{1e9 * cell['seconds'] / int(n):.0f}"
            peak = f"{cell['peak'] / 2**20:.0f}"
            rows.append([f"{int(n):,}", label, f"{cell['seconds']:.3g}", each, peak])
    return table(["transitions", "log", "seconds", "ns a transition", "peak MiB"], rows)


def scale_said() -> str:
    """Ratios and exponents."""
    found = load("scale")["results"]
    memory, disk = found["memory"], found["disk"]
    first, last = next(iter(memory)), list(memory)[-1]
    ratio = memory[last]["seconds"] / int(last) / (memory[first]["seconds"] / int(first))
    speed = memory[last]["seconds"] / disk[last]["seconds"]
    said = (
        f"A transition costs {ratio:.2f} times as much among {int(last):,} as among "
        f"{int(first):,}; "
        f"read from disk the speed is {100 * speed:.0f} % of that in memory. Exponents: "
        + ", ".join(f"{name} {value:.2f}" for name, value in found["exponents"].items())
        + "."
    )
    if "2" in found["processes"]:
        one, two = (found["processes"][k]["seconds"] for k in ("1", "2"))
        said += (
            f" Two processes, each on its core, are {one / two:.2f} times as fast as one "
            "(the swimmer's iteration: 20,000 steps, a 2×32 network fitted by 20 steps of Adam, "
            "M = 20, H = 25; the shortest of three rounds in turns). On the wire an iteration "
            "in two processes, bytes: "
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
    """Kilobytes that an iteration hands over, in memory, in two processes."""
    return max(cell["wire"] for cell in load("scale")["results"]["wire"].values()) / 1e3


def constants() -> tuple[float, float]:
    """Nanoseconds of a transition without rollouts, and of a model step."""
    found = load("scale")["results"]["rollouts"]
    (m0, first), *_, (m1, last) = found.items()
    steps, transitions = 2 * 10, 20_000  # V beside Q, H = 10
    step = (last["seconds"] - first["seconds"]) / (int(m1) - int(m0)) / steps / transitions
    rest = first["seconds"] / transitions - int(m0) * steps * step
    return 1e9 * max(rest, 0.0), 1e9 * step


def core_seconds(transitions: float, share: float) -> float:
    """Of an iteration, on one core that has its machine for itself."""
    rest, step = constants()
    return transitions * (PASSES * rest + share * step * 2 * M * H) / 1e9


def reading_limit(transitions: float = 1e12) -> float:
    """Processes, one a machine, from which reading the log P times takes longer than the rest."""
    reading = PASSES * transitions * BYTES / DISK
    return (core_seconds(transitions, 1.0) / CORES / SHARE / reading) ** 0.5


def plan() -> str:
    """What an iteration needs."""
    rows = []
    for n, exponent in ((1e9, "10⁹"), (1e12, "10¹²")):
        for share, label in ((1.0, "all pairs"), (0.01, "1 % of the pairs")):
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
    """What the fault study printed."""
    text = (RESULTS / "launch-kills.txt").read_text(encoding="utf-8")
    return "\n".join(f"- {line}" for line in text.splitlines())
