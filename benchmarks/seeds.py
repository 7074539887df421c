"""Twenty seeds in one program against twenty runs one after the other, compilation left out.

Both do all that a run does: draw the log, assemble the recipe, 100 iterations, exact return of each
iterate. Prints the ratio of the best of five times each, measured in turns.

Usage: python -m benchmarks.seeds [--trajectories 10] [--recipe gamps]
"""

import time

import equinox as eqx
import jax
import tyro

from gamps import search
from gamps.envs.two_areas import two_areas
from gamps.paper.setup import log_of, true_return
from gamps.paper.treatments import seed_keys
from gamps.search import recipes

SEEDS, ITERATIONS, REPEATS = 20, 100, 5


def ratio(n: int, recipe: str, layout: str = "A") -> float:
    """Time of sequential runs over time of all seeds together."""
    env = two_areas(layout)
    keys, measure = seed_keys(SEEDS), true_return(env)
    draw_one = eqx.filter_jit(lambda key: log_of(env, key, n))
    draw_all = eqx.filter_jit(eqx.filter_vmap(lambda key: log_of(env, key, n)))

    def assemble(behaviour, log):
        assembled = getattr(recipes, recipe)(log, env.task())
        return assembled, assembled.init(behaviour, env.effect_model())

    def one(key):
        assembled, state = assemble(*draw_one(key))
        return search.run(assembled, key, state, iterations=ITERATIONS, measure=measure)

    def together():
        assembled, state = eqx.filter_vmap(assemble)(*draw_all(keys))
        return search.run(assembled, keys, state, iterations=ITERATIONS, measure=measure)

    def seconds(function) -> float:
        start = time.perf_counter()
        jax.block_until_ready(function())
        return time.perf_counter() - start

    def alone():
        return [one(key) for key in keys]

    seconds(alone), seconds(together)  # compile
    times = [(seconds(alone), seconds(together)) for _ in range(REPEATS)]
    slow, fast = (min(column) for column in zip(*times, strict=True))
    return slow / fast


def main(trajectories: int = 10, recipe: str = "gamps") -> None:
    """Say how many times faster the seeds are together.

    Args:
      trajectories: of the log.
      recipe: of gamps.recipes.
    """
    times = ratio(trajectories, recipe)
    print(f"{recipe}, N = {trajectories}: {SEEDS} seeds together are {times:.1f} times faster")


if __name__ == "__main__":
    tyro.cli(main)
