"""Show the speed of rollout kernels, arrangements of the noise, and whole iterations."""

from rendering.tables import load, table


def rollouts() -> str:
    """Tabulate the speed of the rollout kernels."""
    rows = [
        [
            name,
            f"{row['ns_per_step']:.0f}",
            f"{row['ratio_to_bare']:.2f}",
            f"{100 * row['share_of_peak']:.0f}%",
        ]
        for name, row in load("bench-rollouts")["results"].items()
    ]
    return table(["kernel", "ns per model step", "ratio to bare", "share of sgemm peak"], rows)


def kernels(start: str) -> dict[str, float]:
    """Return nanoseconds per step of the kernels whose name starts with `start`."""
    found = load("bench-rollouts")["results"]
    return {name: row["ns_per_step"] for name, row in found.items() if name.startswith(start)}


def noise() -> str:
    """Tabulate variance and time of the gradient, by arrangement of the noise."""
    rows = [
        [problem, baseline, name, *(f"{number:.2f}" for number in row.values())]
        for problem, by_baseline in load("bench-noise")["results"].items()
        for baseline, by_name in by_baseline.items()
        for name, row in by_name.items()
    ]
    return table(["problem", "baseline", "noise", "variance", "time", "variance × time"], rows)


def noises() -> list[dict[str, dict[str, float]]]:
    """Return the four cases, each a dict of arrangements by name."""
    found = load("bench-noise")["results"].values()
    return [by_name for by_baseline in found for by_name in by_baseline.values()]


def variance_error() -> float:
    """Return the relative standard error of a variance, from the number of draws."""
    return (2 / (load("bench-noise")["settings"]["draws"] - 1)) ** 0.5


def iteration() -> str:
    """Tabulate one whole iteration, relative to the bare engine."""
    found = load("bench-iteration")["results"]
    rows = [
        [name, f"{row['milliseconds']:.0f}", f"{row['ratio_to_bare']:.2f}"]
        for name, row in found.items()
    ]
    return table(["program", "ms", "ratio to bare"], rows)
