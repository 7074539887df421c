"""MuJoCo itself as a model: what a search, or a gradient, would be if its model were perfect."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import mujoco.rollout
import numpy as np
from jaxtyping import Array, Float

from gamps.models import Model

STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS


@lru_cache
def _engine(env: str) -> tuple[Any, ...]:
    """Model, control steps, scratch, size of a state, and a rollout without threads of its own."""
    simulator: Any = gymnasium.make(env).unwrapped
    size = mujoco.mj_stateSize(simulator.model, STATE)
    rollout = mujoco.rollout.Rollout(nthread=0)
    return simulator.model, simulator.frame_skip, mujoco.MjData(simulator.model), size, rollout


def following(env: str, observations: Any, actions: Any) -> np.ndarray:
    """Next observations of any number of pairs."""
    model, skip, data, size, rollout = _engine(env)
    observations, actions = np.asarray(observations), np.asarray(actions)
    flat = observations.reshape(-1, observations.shape[-1])
    # A state is time, positions, velocities; what observations leave out, the place, comes first.
    states = np.zeros((len(flat), size))
    states[:, -flat.shape[1] :] = flat
    control = actions.reshape(len(flat), 1, -1).repeat(skip, axis=1)
    moved = rollout.rollout(model, data, states, control=control, nstep=skip)[0]
    last = np.asarray(moved[:, -1, -flat.shape[1] :], observations.dtype)
    return last.reshape(observations.shape)


class Simulated(Model):
    """A Gymnasium environment on MuJoCo whose observations are all that matters of its state.

    Attributes:
      env: its id.
      number: of a member; an ensemble of simulators has nothing else to tell them apart.
    """

    env: str = eqx.field(static=True)
    number: Float[Array, "*seeds"]

    @property
    def noise_size(self) -> int:
        """None is used; one is drawn."""
        return 1

    def step(self, observation: Any, action: Any, noise: Array) -> Any:
        """What the engine does."""
        del noise
        kind = jax.ShapeDtypeStruct(observation.shape, observation.dtype)
        env = self.env
        return jax.pure_callback(
            lambda *pair: following(env, *pair),
            kind, observation, jnp.asarray(action), vmap_method="broadcast_all",
        )  # fmt: skip

    def log_prob(self, observation: Any, action: Any, next_observation: Any) -> Array:
        """It has none; what is fitted is told its likelihood, and here nothing is."""
        del observation, action, next_observation
        return jnp.zeros(())
