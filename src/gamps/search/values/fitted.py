"""Values by approximate dynamic programming on the model (eq. approximate_q)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from gamps._utils.fields import number
from gamps._utils.linear import regress
from gamps._utils.noise import normal
from gamps.errors import SettingError
from gamps.models import Model
from gamps.policies import Policy
from gamps.search.importance import Ratios
from gamps.search.values.types import Values
from gamps.tasks import Task
from gamps.trajectories import Trajectories, flat


class LinearQ(eqx.Module):
    """Q̂(s, a) = wᵀ φ(s, a)."""

    weights: Float[Array, "F"]
    features: Callable[[Any, Any], Float[Array, "F"]]

    def __call__(self, observation: Any, action: Any) -> Float[Array, ""]:
        """The value at one pair."""
        return self.features(observation, action) @ self.weights


def moments(
    features: Float[Array, "n F"],
    rewards: Float[Array, "n"],
    following: Float[Array, "n F"],
    mask: Bool[Array, "n"],
) -> tuple[Float[Array, "F F"], Float[Array, "F k"]]:
    """The moments that regressing r and φ(s', a') on φ(s, a) needs; blocks of a log add up.

    `following` is zero where the episode ends, and only rows in the mask count.
    """
    used = jnp.where(mask[:, None], features, 0.0).T
    # Imagined values in padding may be infinite, and zero times infinity is not zero.
    rewards = jnp.where(mask, rewards, 0.0)
    following = jnp.where(mask[:, None], following, 0.0)
    right = jnp.concatenate([(used @ rewards)[:, None], used @ following], axis=1)
    return used @ jnp.where(mask[:, None], features, 0.0), right


def sweep(
    gram: Float[Array, "F F"], right: Float[Array, "F k"], discount: Any, *, sweeps: int, ridge: Any
) -> Float[Array, "sweeps F"]:
    """Weights of Q̂ that look one step ahead, two, …; each is regressed on the one before."""
    solved = regress(gram, right, ridge=ridge)
    gained, onward = solved[:, 0], jnp.asarray(discount, solved.dtype) * solved[:, 1:]

    def look_ahead(weights: Array, _: None) -> tuple[Array, Array]:
        weights = gained + onward @ weights
        return weights, weights

    stages: Array = jax.lax.scan(look_ahead, jnp.zeros_like(gained), None, length=sweeps)[1]
    return stages


class FittedQ(eqx.Module):
    """Fitted Q evaluation: regress r + γ Q̂(s', a') on φ(s, a) repeatedly.

    From each logged pair it draws, once, `samples` steps of the model and one action of the policy
    after each. Each sweep is then a product with an `[F, F]` matrix. Like any such iteration it may
    diverge if the features cannot represent the values.

    Attributes:
      features: φ, a function of one observation and one action.
      samples: imagined transitions from each logged pair.
      sweeps: sweeps of dynamic programming; Q̂ looks this many steps ahead.
      ridge: ridge penalty, relative to the regression's diagonal.
    """

    features: Callable[[Any, Any], Float[Array, "F"]]
    samples: int = eqx.field(default=10, static=True)
    sweeps: int = eqx.field(default=200, static=True)
    ridge: Float[Array, "*seeds"] | float = number(1e-6)

    def __check_init__(self) -> None:
        for name in ("samples", "sweeps"):
            if getattr(self, name) < 1:
                raise SettingError(name, f"{getattr(self, name)}", "Choose at least one")

    def fit(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model,
        task: Task,
        trajectories: Trajectories,
    ) -> LinearQ:
        """Q̂ of the policy in the model."""
        dtype = trajectories.rewards.dtype
        states, actions, mask = _flat(trajectories)

        def ahead(state: Any, action: Any, noise: Array) -> tuple[Array, Array]:
            following = model.step(state, action, noise[: model.noise_size])
            following_action = policy.act(following, noise[model.noise_size :])
            reward = jnp.asarray(task.reward(state, action, following), dtype)
            goes_on = jnp.logical_not(task.terminal(state, action, following))
            return reward, jnp.where(goes_on, self.features(following, following_action), 0.0)

        def expected(state: Any, action: Any, noise: Array) -> Any:
            each = jax.vmap(ahead, in_axes=(None, None, 0))(state, action, noise)
            return jax.tree.map(lambda x: jnp.mean(x, axis=0), each)

        size = (len(mask), self.samples, model.noise_size + policy.noise_size)
        rewards, following = jax.vmap(expected)(states, actions, normal(key, size, dtype))
        features = jax.vmap(self.features)(states, actions)
        sums = moments(features, rewards, following, mask)
        weights = sweep(*sums, task.discount, sweeps=self.sweeps, ridge=self.ridge)
        return LinearQ(weights[-1], self.features)

    def __call__(
        self,
        key: Key[Array, ""],
        policy: Policy,
        model: Model,
        task: Task,
        trajectories: Trajectories,
        ratios: Ratios,
    ) -> Values:
        """Q̂ at the logged pairs; V is its average over actions of the policy."""
        key_fit, key_actions = jax.random.split(key)
        q = self.fit(key_fit, policy, model, task, trajectories)
        states, actions, mask = _flat(trajectories)
        size = (self.samples, policy.noise_size)
        noise = normal(key_actions, size, ratios.discounted_rho.dtype)

        def v(state: Any) -> Array:
            return jnp.mean(jax.vmap(lambda z: q(state, policy.act(state, z)))(noise))

        shape = trajectories.mask.shape
        q_values = jnp.where(mask, jax.vmap(q)(states, actions), 0.0).reshape(shape)
        return Values(ratios.discounted_rho * q_values, jax.vmap(v)(states).reshape(shape))


def _flat(trajectories: Trajectories) -> tuple[Array, Array, Array]:
    """States, actions and mask, one row for each step."""
    return flat(trajectories.states), flat(trajectories.actions), flat(trajectories.mask)
