"""The setup of the two-areas problem for all gridworld experiments."""

from collections.abc import Callable
from typing import Any, Literal, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps import search
from gamps.envs import TwoAreas, collect
from gamps.envs.two_areas import N_ACTIONS
from gamps.exact import tabular
from gamps.policies import Boltzmann
from gamps.search import Search, State
from gamps.search.fitting import ClosedForm, GradientDescent
from gamps.trajectories import Trajectories

LayoutName = Literal["B", "A", "plain"]
FitName = Literal["adam", "closed"]


def log_of(env: TwoAreas, key: Key[Array, ""], n: int) -> tuple[Boltzmann, Trajectories]:
    """A random behaviour policy and `n` of its episodes; the policy does not depend on `n`."""
    key_policy, key_log = jax.random.split(key)
    behaviour = env.behaviour(key_policy)
    return behaviour, collect(env, behaviour, key_log, n=n, steps=env.layout.horizon)


def fit_of(env: TwoAreas, name: FitName) -> ClosedForm | GradientDescent:
    """The exact maximiser, or Adam at the paper's 0.01; 130 steps from W = 0 fit the paper best."""
    if name == "closed":
        return ClosedForm()
    return GradientDescent(steps=130, learning_rate=0.01, patience=130, start=env.effect_model())


def policy_table(env: TwoAreas, policy: Any) -> Float[Array, "S A"]:
    """π(a|s) over cells."""
    return tabular.policy_table(policy, env.effect_model().states(), N_ACTIONS)


def true_return(env: TwoAreas) -> Callable[[State], Float[Array, ""]]:
    """A function that measures the exact discounted return of a state's policy."""
    mdp = env.mdp()
    return lambda state: tabular.expected_return(mdp, policy_table(env, state.policy))


def forced_mdp(env: TwoAreas) -> tabular.MDP:
    """The problem that remains when the behaviour policy's forced rows are fixed."""
    mdp, forced = env.mdp(), env.forced
    only = mdp.transitions[np.arange(len(forced)), np.maximum(forced, 0)]
    fixed = jnp.where((forced >= 0)[:, None, None], only[:, None], mdp.transitions)
    return eqx.tree_at(lambda m: m.transitions, mdp, fixed)


def best_return(env: TwoAreas) -> float:
    """The largest return of any policy with the behaviour policy's forced rows."""
    mdp = forced_mdp(env)
    return float(mdp.initial @ tabular.optimal_values(mdp))


def logs_of(env: TwoAreas, keys: Key[Array, "seeds"], n: int) -> tuple[Boltzmann, Trajectories]:
    """`log_of` for every seed, in one program."""
    make = eqx.filter_vmap(lambda key: log_of(env, key, n))
    return cast(tuple[Boltzmann, Trajectories], eqx.filter_jit(make)(keys))


def learn(
    env: TwoAreas,
    recipe: Callable[..., Search],
    logs: tuple[Boltzmann, Trajectories],
    keys: Key[Array, "seeds"],
    *,
    parts: dict[str, Any],
    iterations: int,
    measure: Callable[[State], Any],
    progress: Callable[[Any], Any],
    model: Any = None,
) -> np.ndarray:
    """`[iterations + 1, seeds]`: the exact return before and after each iteration."""

    def prepare(behaviour: Boltzmann, trajectories: Trajectories) -> tuple[Search, State]:
        built = recipe(trajectories, env.task(), **parts)
        return built, built.init(behaviour, env.effect_model() if model is None else model)

    built, state = eqx.filter_vmap(prepare)(*logs)
    start = eqx.filter_jit(eqx.filter_vmap(measure))(state)
    _, _, returns = search.run(
        built, keys, state, iterations=iterations, measure=measure, progress=progress
    )
    return np.concatenate([start[None], returns])
