"""`benchmarks.engine scale`: what an iteration costs, against everything that it grows with."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.engine.problems import ProblemSpec, swimming
from benchmarks.engine.together import together
from gamps import datasets
from gamps._utils import console, figures
from gamps._utils.worker_pool import cores
from gamps.envs import swimmer
from gamps.trajectories import Episode

STEPS = 1_000  # of a trajectory
CHEAP = dict(rollouts=2, horizon=10)  # where the log is large, what is not rollouts shows most
ROUNDS = 3
WIRE = (8_192, 16_384)  # trajectories


def scale(
    *,
    out: Path = Path("runs/scale"),
    largest: int = 10_000_000,
    iterations: int = 4,
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """Time and memory of an iteration against transitions, processes, rollouts and horizon.

    Every measurement is a process of its own, pinned to a core, on a log of the swimmer's size with
    a linear model; the shortest of some iterations counts. Processes are compared by the swimmer's
    own iteration, with its network. The largest log is also read from disk, in shards. Exponents
    are slopes in the logarithm: 1 is proportional. Writes scale.json and scale.png. Ten minutes
    and 5 GB of memory at 10⁷ transitions; --quick stops at 10⁵.

    Example: python -m benchmarks.engine scale --quick

    Args:
      out: folder of the results.
      largest: transitions of the largest log, a power of ten times a thousand.
      iterations: the first, which compiles, is not counted.
      quick: a small version.
      overwrite: replace results that are there.
    """
    console.folder(out, "scale", overwrite=overwrite)
    largest = min(largest, 100_000) if quick else largest
    sizes = [10**k for k in range(4, 13) if 10**k <= largest]
    many = (2, 4) if quick else (2, 4, 8, 16)
    long = (5, 10) if quick else (5, 10, 20, 40)
    # Two processes need two cores, or there is nothing to be faster.
    several = [[0], [0, 1]] if cores() > 1 else [[0]]
    total = len(sizes) + 1 + len(many) + len(long)
    total += len(several) * (1 if quick else ROUNDS) + len(WIRE) * (len(several) > 1)
    with console.bar("scale", total) as advance:

        def measured(cores: list[int], **spec: Any) -> dict[str, Any]:
            said = dict(iterations=iterations, steps=STEPS) | spec
            found = together(ProblemSpec(**said), cores)
            advance(" ".join(f"{k} {v}" for k, v in spec.items() if k != "shards"))
            return {
                "seconds": min(found["seconds"][1:]),
                "peak": found["peak"],
                "wire": float(np.median(found["wire"][1:])),
                "collectives": found["collectives"],
            }

        results: dict[str, Any] = {
            "memory": {n: measured([0], trajectories=n // STEPS, **CHEAP) for n in sizes}
        }
        with tempfile.TemporaryDirectory() as folder:
            shards = cut(Path(folder) / "shards", sizes[-1] // STEPS)
            results["disk"] = {sizes[-1]: measured([0], shards=str(shards), **CHEAP)}
            shutil.rmtree(shards)
        results["rollouts"] = {m: measured([0], trajectories=100, steps=200, rollouts=m, horizon=10)
                               for m in many}  # fmt: skip
        results["horizon"] = {h: measured([0], trajectories=100, steps=200, rollouts=4, horizon=h)
                              for h in long}  # fmt: skip
        # In turns: on a shared machine an hour ago was another machine.
        rounds = [{len(c): measured(c, problem="network", steps=200) for c in several}
                  for _ in range(1 if quick else ROUNDS)]  # fmt: skip
        results["processes"] = {
            k: min((found[k] for found in rounds), key=lambda cell: cell["seconds"])
            for k in rounds[0]
        }
        if len(several) > 1:
            results["wire"] = {
                n: measured([0, 1], trajectories=n, steps=4, rollouts=2, horizon=2, program=True)
                for n in WIRE
            }
    results["exponents"] = {
        name: exponent(results[name]) for name in ("memory", "rollouts", "horizon")
    }
    settings = dict(largest=largest, iterations=iterations, steps=STEPS, cheap=CHEAP)
    console.save(
        out, "scale", settings=settings, results=results, paper={}, figure=_figure(results),
        table=_table(results),
    )  # fmt: skip
    _say(results)


def cut(folder: Path, trajectories: int, chunk: int = 200) -> Path:
    """A log of the swimmer's size as shards, made and written chunk by chunk."""

    def episodes() -> Iterator[Episode]:
        for first in range(0, trajectories, chunk):
            key = jax.random.fold_in(jax.random.key(0), first)
            log = jax.tree.map(np.asarray, swimming(key, min(chunk, trajectories - first), STEPS))
            yield from (
                Episode(o, a, r, p)
                for o, a, r, p in zip(
                    log.observations, log.actions, log.rewards, log.behaviour_log_prob, strict=True
                )
            )

    datasets.write_shards(episodes(), folder, behaviour=swimmer.policy(0.5))
    return folder


def exponent(cells: dict[int, dict[str, Any]]) -> float:
    """Slope of log seconds against log size, by least squares.

    Examples:
      >>> exponent({n: {"seconds": 3e-9 * n**2} for n in (10, 100, 1000)})
      2.0
    """
    x = np.log([float(n) for n in cells])
    y = np.log([cell["seconds"] for cell in cells.values()])
    return round(float(np.polyfit(x, y, 1)[0]), 6)


def _table(results: dict[str, Any]) -> Any:
    table = console.rich_table(
        "One iteration, one core", ["what", "seconds", "ns a transition", "peak MB"]
    )
    for where in ("memory", "disk"):
        for n, cell in results[where].items():
            each, peak = 1e9 * cell["seconds"] / n, cell["peak"] / 1e6
            name = f"{n:,} transitions, {'in memory' if where == 'memory' else 'from disk'}"
            table.add_row(name, f"{cell['seconds']:.3g}", f"{each:.0f}", f"{peak:.0f}")
    for what in ("rollouts", "horizon", "processes"):
        for n, cell in results[what].items():
            table.add_row(f"{n} {what}", f"{cell['seconds']:.3g}", "", "")
    return table


def _say(results: dict[str, Any]) -> None:
    memory, found = results["memory"], results["exponents"]
    first, last = next(iter(memory)), list(memory)[-1]
    ratio = (memory[last]["seconds"] / last) / (memory[first]["seconds"] / first)
    speed = memory[last]["seconds"] / results["disk"][last]["seconds"]
    said = [
        f"a transition costs {ratio:.2f} times as much in {last:,} as in {first:,}",
        f"from disk: {100 * speed:.0f}% of the speed in memory",
        "exponents: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items()),
    ]
    if 2 in results["processes"]:
        one, two = (results["processes"][k]["seconds"] for k in (1, 2))
        said.append(f"two processes: {one / two:.2f} times as fast as one")
        for n, cell in results["wire"].items():
            handed = cell["collectives"]["bytes"]
            said.append(
                f"{n:,} trajectories in two processes: {cell['wire']:,.0f} bytes on the wire an "
                f"iteration, of which the program hands over {handed:,}"
            )
    for line in said:
        console.say(line)


def _figure(results: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, 4)
    titles = ("transitions", "rollouts M", "horizon H", "peak memory")
    for axis, name, title in zip(axes[0], ("memory", "rollouts", "horizon"), titles, strict=False):
        cells = results[name]
        axis.loglog(list(cells), [c["seconds"] for c in cells.values()], "o-", color="#c1121f",
                    label="in memory")  # fmt: skip
        if name != "memory":  # less than a decade: its numbers are the ticks
            axis.set_xticks(list(cells), [str(n) for n in cells])
            axis.xaxis.minorticks_off()
        axis.set_xlabel(title)
        axis.set_title(f"seconds, exponent {results['exponents'][name]:.2f}", fontsize=9)
    styles = {"memory": ("o-", "#c1121f", "in memory"), "disk": ("s", "#1d6fa5", "from disk")}
    for name, (style, colour, label) in styles.items():
        cells = results[name]
        peaks = [c["peak"] / 1e6 for c in cells.values()]
        axes[0][3].loglog(list(cells), peaks, style, color=colour, label=label)
    _, colour, label = styles["disk"]
    times = [c["seconds"] for c in results["disk"].values()]
    axes[0][0].loglog(list(results["disk"]), times, "s", color=colour, label=label)
    axes[0][0].legend(frameon=False, fontsize=8)
    axes[0][3].set_xlabel("transitions")
    axes[0][3].set_title("peak MB of the process", fontsize=9)
    axes[0][3].legend(frameon=False, fontsize=8)
    return figure
