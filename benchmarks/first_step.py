"""How soon a process takes its first step, with and without programs kept by an earlier one.

Starts itself as four processes that share a new folder: the first fills it, the others find it
filled. Each draws logs of minigolf, assembles GAMPS and times its first step, from tracing to
result. With one seed it is the step of a single search, else all seeds in one program, as
`gamps reproduce minigolf` runs them.

Usage: python -m benchmarks.first_step [--seeds 90]
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tyro


def first_step(folder: str, seeds: int) -> float:
    """Seconds from the assembled search to the end of its first step."""
    import equinox as eqx
    import jax

    from gamps import search
    from gamps._utils import compile_cache
    from gamps.envs import Minigolf
    from gamps.paper.golf_setup import logs_of, parameters, recipe_on
    from gamps.paper.treatments import seed_keys

    compile_cache.keep_compiled(Path(folder))
    env, keys = Minigolf(), seed_keys(seeds)

    def prepare(log):
        built = recipe_on(env, "gamps", log, "per_time")
        return built, built.init(env.policy(), env.linear_model())

    assembled = eqx.filter_vmap(prepare)(logs_of(env, keys, std=1.0, n=50))
    if seeds == 1:
        keys, assembled = keys[0], jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, assembled)
    start = time.perf_counter()
    built, state = assembled
    jax.block_until_ready(search.run(built, keys, state, iterations=1, measure=parameters))
    return time.perf_counter() - start


def measure(seeds: int) -> list[float]:
    """First steps of four processes that share a folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--seeds", str(seeds), "--cache", folder]
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
            for _ in range(4)
        ]
    return [float(done.stdout) for done in runs]


def main(seeds: int = 90, cache: str = "") -> None:
    """Say how much sooner later processes have their first step.

    Args:
      seeds: trained together.
      cache: folder of compiled programs: time one process with it, in place of several.
    """
    if cache:
        print(first_step(cache, seeds))
        return
    first, *later = measure(seeds)
    after = statistics.median(later)
    print(f"first process {first:.2f} s, later {after:.2f} s: {first / after:.1f} times sooner")


if __name__ == "__main__":
    tyro.cli(main)
