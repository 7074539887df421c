"""The recipes and baselines that experiments compare, and how to summarise differences."""

import math
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from gamps._utils import console, summaries
from gamps.search import recipes
from gamps.search.values import MinimumVariance, NoBaseline, PerTime, StateValue

BaselineName = Literal["none", "per_time", "minimum_variance", "state_value"]

RECIPES = {
    "gamps": recipes.gamps,
    "ml": recipes.ml,
    "pgt": recipes.pgt,
    "reinforce": recipes.reinforce,
}
MODEL_FREE = ("pgt", "reinforce")
BASELINES = {
    "none": NoBaseline(),
    "per_time": PerTime(),
    "minimum_variance": MinimumVariance(),
    "state_value": StateValue(),
}


def seed_keys(seeds: int) -> Key[Array, "seeds"]:
    """One key for each of the seeds 0, 1, …; seed i means the same in every run."""
    return jax.vmap(jax.random.key)(jnp.arange(seeds))


def each_seed(name: str, run: Callable[[Array], Any], seeds: int) -> list[Any]:
    """The results of a compiled `run` for every seed's key, on the host, with a progress bar."""
    compiled, results = eqx.filter_jit(run), []
    with console.bar(name, seeds) as advance:
        for seed, key in enumerate(seed_keys(seeds)):
            results.append(jax.tree.map(np.asarray, compiled(key)))
            advance(f"seed {seed}")
    return results


def final_and_best(curve: np.ndarray) -> dict[str, Any]:
    """Summaries over seeds of a curve `[iterations + 1, seeds]`."""
    return {"final": summaries.summary(curve[-1]), "best": summaries.summary(curve.max(axis=0))}


def baseline_of(recipe: str, name: BaselineName) -> Any:
    """The baseline of a treatment; without a model, minimum variance replaces V(s)."""
    swap = name == "state_value" and recipe in MODEL_FREE
    return BASELINES["minimum_variance" if swap else name]


def paired(finals: dict[str, np.ndarray]) -> dict[str, Any]:
    """GAMPS minus each other recipe on the same logs: the mean and its standard error."""
    differences = {k: finals["gamps"] - v for k, v in finals.items() if k != "gamps"}
    return {
        name: {
            "mean": float(d.mean()),
            "standard_error": float(d.std(ddof=1)) / math.sqrt(len(d)) if len(d) > 1 else math.nan,
        }
        for name, d in differences.items()
    }
