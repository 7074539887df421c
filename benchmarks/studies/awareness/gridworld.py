"""The map on the gridworld: exact gradients, and returns at the end of a search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from benchmarks.studies.awareness.weighting import WEIGHTS, Weighting
from gamps.envs import TwoAreas
from gamps.envs.two_areas import N_ACTIONS, two_areas
from gamps.exact import tabular
from gamps.models.types import FiniteModel
from gamps.paper.setup import forced_mdp, learn, logs_of, policy_table, true_return
from gamps.paper.table1 import cosine
from gamps.policies import Boltzmann
from gamps.search import recipes
from gamps.search.fitting import ClosedForm
from gamps.search.importance import Ratios, log_rho
from gamps.search.values.exact import value_tables
from gamps.trajectories import Trajectories

LAYOUT = "A"
KINDS = ("effects", "areas", "cells")
DISTANCES = (0.0, 0.5, 1.0)
SURE = 3.0  # logit of the best action at distance one: it is taken nearly nine times in ten
ITERATIONS = 100


class Grouped(FiniteModel):
    """The paper's model of effects, one for each group of cells.

    Attributes:
      logits: `[G, A, E]`.
      groups: `[S]`, the group of each cell.
      successors: `[S, E]`, the cell that each effect leads to.
    """

    logits: Float[Array, "*seeds G A E"]
    groups: Int[Array, "*seeds S"]
    successors: Int[Array, "*seeds S E"]

    def log_prob(self, observation: Any, action: Any, next_observation: Any) -> Float[Array, ""]:
        """Of the logged effect, in the cell's group."""
        each = jax.nn.log_softmax(self.logits[self.groups[observation[0]], action])
        return each[next_observation[1]]

    def statistics(
        self, observations: Any, actions: Any, next_observations: Any, weights: Float[Array, "n"]
    ) -> Float[Array, "G A E"]:
        """Weighted counts of (group, action, effect)."""
        groups, n_actions, effects = self.logits.shape
        row = self.groups[observations[:, 0]] * n_actions + actions
        did = jax.nn.one_hot(row, groups * n_actions, dtype=weights.dtype) * weights[:, None]
        counts = did.T @ jax.nn.one_hot(next_observations[:, 1], effects, dtype=weights.dtype)
        return counts.reshape(self.logits.shape)

    def from_statistics(self, statistics: Float[Array, "G A E"]) -> Grouped:
        """Weighted frequencies; what was never seen becomes uniform."""
        least = jnp.finfo(statistics.dtype).tiny
        return Grouped(jnp.log(jnp.maximum(statistics, least)), self.groups, self.successors)

    def transitions(self) -> Float[Array, "S A S"]:
        """Effects of each cell's group, pushed through the known rule."""
        reached = jax.nn.one_hot(self.successors, len(self.successors), dtype=self.logits.dtype)
        effects = jax.nn.softmax(self.logits, axis=-1)[self.groups]
        return jnp.einsum("sae,set->sat", effects, reached)

    def states(self) -> Int[Array, "S 2"]:
        """Each cell, as reached by staying."""
        cells, effects = self.successors.shape
        return jnp.stack([jnp.arange(cells), jnp.full(cells, effects - 1)], axis=1)

    def index(self, observation: Int[Array, "2"]) -> Int[Array, ""]:
        """The cell."""
        return observation[0]


def model_of(env: TwoAreas, kind: str) -> Grouped:
    """Unfitted: all cells alike, as in the paper; the two areas apart; or every cell by itself."""
    plain = env.effect_model()
    cells = len(plain.successors)
    groups = {
        "effects": np.zeros(cells, int),
        "areas": env.layout.lower.astype(int),
        "cells": np.arange(cells),
    }[kind]
    logits = jnp.zeros((groups.max() + 1, *plain.logits.shape), dtype=float)
    return Grouped(logits, jnp.asarray(groups), plain.successors)


def target(env: TwoAreas) -> Float[Array, "S A"]:
    """Logits that prefer the best action of every cell; zero where the action is forced."""
    mdp = forced_mdp(env)
    best = mdp.rewards + mdp.discount * mdp.transitions @ tabular.optimal_values(mdp)
    goal = SURE * jax.nn.one_hot(jnp.argmax(best, axis=1), N_ACTIONS)
    return jnp.where(jnp.asarray(env.forced < 0)[:, None], goal, 0.0)


@eqx.filter_jit
def cosines(
    env: TwoAreas,
    logs: tuple[Boltzmann, Trajectories],
    goal: Float[Array, "S A"],
    kind: str,
    weights: str,
) -> Float[Array, "distances seeds"]:
    """Of the gradient with the model's Q to the true one, both exact, log by log."""
    mdp, task, discount = env.mdp(), env.task(), env.layout.discount

    def one(behaviour: Boltzmann, log: Trajectories, distance: Array) -> Array:
        moved = (1 - distance) * behaviour.weights + distance * goal
        policy = eqx.tree_at(lambda p: p.weights, behaviour, moved)
        ratios = Ratios.of(log_rho(policy, log), log.mask, discount)
        omega = Weighting(weights, discount)(policy, log, ratios)
        fitted, _ = ClosedForm()(jax.random.key(0), model_of(env, kind), log, omega)
        model = cast(Grouped, fitted)
        q_values, _ = value_tables(policy, model, task)
        pi = policy_table(env, policy)
        scores = tabular.score_table(policy, model.states(), N_ACTIONS)
        ours = tabular.gradient_from(mdp, pi, scores, q_values)
        return cosine(ours, tabular.policy_gradient(mdp, pi, scores))

    each = eqx.filter_vmap(one, in_axes=(eqx.if_array(0), eqx.if_array(0), None))
    found: Array = jax.lax.map(lambda distance: each(*logs, distance), jnp.asarray(DISTANCES))
    return found


def rows(
    keys: Key[Array, "seeds"], n: int, kinds: tuple[str, ...], advance: Callable[[str], None]
) -> dict[str, Any]:
    """By model class, distance and weights: one cosine a log; and the return of a whole search."""
    env = two_areas(LAYOUT)
    logs, measure, goal = logs_of(env, keys, n), true_return(env), target(env)
    found: dict[str, Any] = {}
    for kind in kinds:
        found[kind] = {str(distance): {} for distance in DISTANCES} | {"return": {}}
        for weights in WEIGHTS:
            at = np.asarray(cosines(env, logs, goal, kind, weights))
            for distance, each in zip(DISTANCES, at, strict=True):
                found[kind][str(distance)][weights] = each
            weighting = Weighting(weights, float(env.layout.discount))
            curve = learn(
                env,
                recipes.gamps,
                logs,
                keys,
                parts={"weighting": weighting},
                iterations=ITERATIONS,
                measure=measure,
                progress=iter,
                model=model_of(env, kind),
            )
            found[kind]["return"][weights] = np.asarray(curve[-1])
            advance(f"{n} {kind} {weights}")
    return found
