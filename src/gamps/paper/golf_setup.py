"""The setup of the minigolf experiment: logs, recipes, and the value of a learned policy."""

from collections.abc import Callable
from typing import Any, Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key

from gamps import search
from gamps.envs import Minigolf, collect
from gamps.envs.minigolf import HORIZON
from gamps.paper.best_settings import stabilised
from gamps.paper.treatments import MODEL_FREE, RECIPES, BaselineName, baseline_of, seed_keys
from gamps.policies import LinearGaussianPolicy
from gamps.search import Search, State
from gamps.search.values import Imagined
from gamps.trajectories import Trajectories

# The paper's optimiser; built once, because a new object would be a new program to compile.
ADAM = optax.scale_by_adam(b1=0.0)
Treatment = Literal["none", "per_time", "per_time_ess", "stabilised"]
# The baseline, and the effective number of trajectories below which the policy stops moving.
TREATMENTS: dict[Treatment, tuple[BaselineName, float]] = {
    "none": ("none", 0.0),
    "per_time": ("per_time", 0.0),
    "per_time_ess": ("per_time", 2.0),
}
USES = ("log", "search", "evaluation", "best")


def keys_for(use: str, keys: Key[Array, "seeds"]) -> Key[Array, "seeds"]:
    """Each seed's key for one of `USES`."""
    return jax.vmap(lambda key: jax.random.split(key, len(USES))[USES.index(use)])(keys)


def logs_of(env: Minigolf, keys: Key[Array, "seeds"], *, std: float, n: int) -> Trajectories:
    """`n` episodes for every seed."""
    make = eqx.filter_vmap(lambda k: collect(env, env.policy(std=std), k, n=n, steps=HORIZON))
    logs: Trajectories = eqx.filter_jit(make)(keys_for("log", keys))
    return logs


def recipe_on(
    env: Minigolf, name: str, log: Trajectories, treatment: Treatment, learning_rate: float = 0.08
) -> Search:
    """A recipe with the settings of the paper's appendix."""
    # A block fits the 180 or so real steps of a log; a larger one would roll out padding.
    imagined = Imagined(rollouts=10, horizon=20, antithetic=False, block=2400)
    values = {} if name in MODEL_FREE else {"values": imagined}
    if treatment == "stabilised":
        parts = stabilised(name, continuous=True)
    else:
        baseline, least_ess = TREATMENTS[treatment]
        parts = {"baseline": baseline_of(name, baseline), "least_ess": least_ess}
    shared = {"learning_rate": learning_rate, "optimiser": ADAM}
    return RECIPES[name](log, env.task(), **shared, **parts, **values)


def parameters(state: State) -> tuple[Array, Array]:
    """The parameters of a state's policy."""
    policy = cast(LinearGaussianPolicy, state.policy)
    return policy.weights, policy.log_std


@eqx.filter_jit
def outcomes(
    env: Minigolf,
    weights: Float[Array, "seeds F A"],
    log_std: Float[Array, "seeds A"],
    keys: Key[Array, "seeds"],
    episodes: int,
) -> dict[str, Float[Array, "seeds"]]:
    """Return, and shares of episodes in the hole and past it, over fresh episodes of the game."""

    def outcome(weights: Array, log_std: Array, key: Array) -> dict[str, Array]:
        policy = LinearGaussianPolicy(weights, env.policy().features, log_std=log_std)
        log = collect(env, policy, key, n=episodes, steps=HORIZON)
        discounts = env.discount ** jnp.arange(HORIZON)
        lost = jnp.any(log.rewards < -1, axis=1)
        return {
            "return": jnp.mean(jnp.sum(discounts * log.rewards, axis=1)),
            "holes": jnp.mean(log.terminated & ~lost),
            "overshoots": jnp.mean(lost),
        }

    return jax.vmap(outcome)(weights, log_std, keys)


def curve_of(
    env: Minigolf,
    name: str,
    logs: Trajectories,
    keys: Key[Array, "seeds"],
    *,
    treatment: Treatment,
    learning_rate: float,
    iterations: int,
    episodes: int,
    progress: Callable[[Any], Any],
) -> dict[str, np.ndarray]:
    """Outcomes `[iterations + 1, seeds]` of a recipe, and of its best and mean-action policies."""

    def prepare(log: Trajectories) -> tuple[Search, State]:
        built = recipe_on(env, name, log, treatment, learning_rate)
        return built, built.init(env.policy(), env.linear_model())

    built, state = eqx.filter_vmap(prepare)(logs)
    start = [np.asarray(x)[None] for x in parameters(state)]
    key = keys_for("search", keys)
    _, _, learned = search.run(
        built, key, state, iterations=iterations, measure=parameters, progress=progress
    )
    weights, log_std = (np.concatenate(pair) for pair in zip(start, learned, strict=True))

    def evaluate(weights: Any, log_std: Any, use: str) -> dict[str, Array]:
        return outcomes(env, weights, log_std, keys_for(use, keys), episodes)

    # The same episodes for every recipe and iteration make differences between them sharper.
    each = [evaluate(*policy, "evaluation") for policy in zip(weights, log_std, strict=True)]
    outcome = {field: np.stack([o[field] for o in each]) for field in each[0]}
    top = (outcome["return"].argmax(axis=0), np.arange(len(keys)))
    # Evaluate the best again: the maximum of noisy numbers is too high.
    outcome["best"] = np.asarray(evaluate(weights[top], log_std[top], "best")["return"])
    still = np.full_like(log_std[-1], -50.0)
    outcome["mean_action"] = np.asarray(evaluate(weights[-1], still, "evaluation")["return"])
    return outcome


def behaviour_mean_action(env: Minigolf, episodes: int) -> float:
    """The return of the behaviour policy without its noise, which any recipe must beat."""
    keys, weights = seed_keys(20), env.policy().weights
    many, still = jnp.tile(weights, (len(keys), 1, 1)), jnp.full((len(keys), 1), -50.0)
    return float(outcomes(env, many, still, keys, episodes)["return"].mean())
