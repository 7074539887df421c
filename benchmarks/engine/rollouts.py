"""`benchmarks.engine rollouts`: the library's imagined rollouts against the engine run bare."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from benchmarks.engine import kernels
from benchmarks.engine.timing import AsJson, best_times, by_torch
from gamps._utils import console
from gamps.errors import SettingError
from gamps.search.importance import Ratios
from gamps.search.values import Imagined

BLOCK = Imagined().block


def library(given: kernels.Parts, *, rollouts: int, horizon: int) -> Callable[[], Any]:
    """What a search runs: noise drawn, padding moved away, Q at every logged pair."""
    estimator = Imagined(rollouts=rollouts, horizon=horizon, block=BLOCK)
    shape = given.trajectories.mask.shape
    ratios = Ratios(jnp.zeros(shape), jnp.ones(shape), jnp.zeros(()))

    @eqx.filter_jit
    def run(key: Array, given: kernels.Parts) -> Array:
        return estimator(key, *given, ratios=ratios).weighted_q_values

    return lambda: run(jax.random.key(0), given)


def peak(repeats: int = 20, size: int = 2048) -> float:
    """GFLOP/s of a large float32 matrix product, the better of JAX's and NumPy's."""
    matrix = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    array = jnp.asarray(matrix)
    product = jax.jit(lambda a: a @ a)
    both = {"jax": lambda: product(array), "numpy": lambda: matrix @ matrix}
    times = best_times(both, repeats)
    return 2 * size**3 / min(times.values()) / 1e9


def torch_times(
    plain: kernels.Plain, python: Path, *, rollouts: int, horizon: int, repeats: int
) -> dict[str, float]:
    """Seconds of PyTorch's arrangements, measured by another interpreter."""
    arrays = {
        name: values for name, values in plain._asdict().items() if isinstance(values, np.ndarray)
    }
    for i in range(3):
        arrays |= {f"weights{i}": plain.weights[i], f"biases{i}": plain.biases[i]}
    found: dict[str, float] = by_torch(
        "torch_rollouts.py", python, arrays, rollouts, horizon, repeats
    )
    return found


def rollouts(
    *,
    trajectories: int = 100,
    steps: int = 200,
    rollouts: int = 20,
    horizon: int = 25,
    repeats: int = 8,
    torch_python: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Imagined rollouts: nanoseconds per model step, and the ratio to the bare engine.

    One problem of the swimmer's size (8 observations, 2 actions, a 2×32 network), in one process
    and in turns: the library's kernel; a bare jitted kernel that does only the arithmetic; what one
    writes first in JAX; a NumPy loop; and PyTorch, eager, in an interpreter of its own, in the
    three fastest of sixteen arrangements.

    Example: python -m benchmarks.engine rollouts --torch-python ~/torch/bin/python --json

    Args:
      trajectories: logged trajectories.
      steps: of each.
      rollouts: imagined trajectories from every logged pair.
      horizon: imagined steps.
      repeats: the best of so many is shown.
      torch_python: interpreter that has PyTorch; by default this one, if it has.
      as_json: print JSON instead of a table.
    """
    if rollouts % 2 or BLOCK % rollouts:
        raise SettingError("rollouts", f"{rollouts}", f"Choose an even divisor of {BLOCK}, say 20")
    if trajectories * steps % (starts := BLOCK // rollouts):
        fix = f"trajectories × steps must be a multiple of {starts}"
        raise SettingError("steps", f"{trajectories} × {steps}", fix)
    size = dict(rollouts=rollouts, horizon=horizon)
    given = kernels.parts(trajectories, steps)
    plain = kernels.plain(given)
    functions = {
        "library": library(given, **size),
        "bare": kernels.bare(plain, **size, block=BLOCK),
        "naive": kernels.naive(plain, **size),
        "numpy": kernels.numpy_loop(plain, **size, block=BLOCK),
    }
    if torch_python is None and importlib.util.find_spec("torch"):
        torch_python = Path(sys.executable)
    with console.bar("bench", 1 + repeats * len(functions) + bool(torch_python)) as advance:
        peak_gflops = peak()
        advance("sgemm peak; then in turns" + (", and last PyTorch, minutes" * bool(torch_python)))
        times = best_times(functions, repeats, advance)
        if torch_python is not None:
            found = torch_times(plain, torch_python, **size, repeats=repeats)
            fastest = sorted(found, key=found.__getitem__)
            times |= {f"torch, {name}": found[name] for name in fastest[:3]}
            advance("torch")
    model_steps = trajectories * steps * rollouts * horizon
    results = {
        name: {
            "ns_per_step": 1e9 * seconds / model_steps,
            "ratio_to_bare": seconds / times["bare"],
            "share_of_peak": kernels.FLOPS * model_steps / seconds / 1e9 / peak_gflops,
        }
        for name, seconds in times.items()
    }
    settings: dict[str, Any] = dict(
        trajectories=trajectories, steps=steps, **size, repeats=repeats, block=BLOCK
    )
    if as_json:
        settings["peak_gflops"] = peak_gflops
        print(json.dumps({"settings": settings, "results": results}, indent=1))
        return
    table = console.rich_table(
        f"{trajectories} trajectories × {steps} steps × {rollouts} rollouts × {horizon} steps, "
        f"2×32 network; sgemm peak {peak_gflops:.0f} GFLOP/s",
        ["kernel", "ns per model step", "ratio to bare", "share of peak"],
        caption=f"The best of {repeats} runs in turns."
        + ("" if torch_python else " PyTorch: pass --torch-python PATH of one that has it."),
    )
    for name, row in results.items():
        table.add_row(
            name,
            f"{row['ns_per_step']:.1f}",
            f"{row['ratio_to_bare']:.2f}",
            f"{100 * row['share_of_peak']:.0f}%",
        )
    console.say(table)
