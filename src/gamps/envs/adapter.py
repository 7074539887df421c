"""A functional environment as an ordinary Gymnasium one, NumPy in and NumPy out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.envs.functional_jax_env import FunctionalJaxEnv


class NumpyEnv(FunctionalJaxEnv[Any]):
    """Gymnasium's own adapter, with JAX arrays converted to members of the spaces.

    Gymnasium's `JaxToNumpy` wrapper would do the same, but needs another package.
    """

    def __init__(self, func_env: Any, render_mode: str | None = None) -> None:
        super().__init__(func_env, metadata={"render_modes": []}, render_mode=render_mode)

    def _numpy(self, observation: jax.Array) -> np.ndarray:
        return np.asarray(observation, dtype=self.observation_space.dtype)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        observation, info = super().reset(seed=seed, options=options)
        return self._numpy(observation), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance one step."""
        observation, reward, terminated, truncated, info = super().step(jnp.asarray(action))
        return self._numpy(observation), reward, terminated, truncated, info
