"""Normal densities over continuous actions as they were drawn, before any clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Float, Int, Key

from gamps._utils.fields import number
from gamps._utils.networks import MLP
from gamps.errors import SettingError
from gamps.policies.features import Affine
from gamps.policies.types import Policy

SHORTENED = 0.3  # share that is kept of how far a mean exceeds the actuators' range


class Gaussian(Policy):
    """Independent normal actions around a mean; subclasses compute the mean from the observation.

    The density is that of the raw action: an actuator that clips does so after the draw, and a
    clipped action has no density.

    Attributes:
      log_std: `[A]`, trainable if `learn_std`.
      learn_std: whether the gradient reaches `log_std`.
    """

    log_std: Float[Array, "*seeds A"] = eqx.field(kw_only=True)
    learn_std: bool = eqx.field(default=True, static=True, kw_only=True)

    def mean(self, observation: Any) -> Float[Array, "A"]:
        """The most likely action."""
        raise NotImplementedError

    def _std(self) -> Float[Array, "A"]:
        return jnp.exp(self.log_std if self.learn_std else jax.lax.stop_gradient(self.log_std))

    def log_prob(self, observation: Any, action: Float[Array, "A"]) -> Float[Array, ""]:
        """Log-density of the raw action."""
        return jnp.sum(norm.logpdf(action, self.mean(observation), self._std()))

    @property
    def noise_size(self) -> int:
        """One number per dimension of the action."""
        return int(self.log_std.shape[-1])

    def act(self, observation: Any, noise: Float[Array, "A"]) -> Float[Array, "A"]:
        """Mean plus scaled noise; zeros give the mean action."""
        return self.mean(observation) + self._std() * noise

    def divergence(self, other: Policy, observation: Any) -> Float[Array, ""]:
        """KL of two normal densities."""
        if not isinstance(other, Gaussian):
            raise SettingError("other", type(other).__name__, "Compare policies of one class")
        apart = (self.mean(observation) - other.mean(observation)) / other._std()
        ratio = self.log_std - other.log_std
        return jnp.sum(jnp.exp(2 * ratio) + apart**2 - 1 - 2 * ratio) / 2


class Annealed(eqx.Module):
    """Shrink the standard deviation from `start` to `end` by equal factors, then keep it.

    Attributes:
      start: value before the first iteration; a number, or one per dimension of the action.
      end: the floor.
      iterations: number of iterations until the floor is reached.
    """

    start: Float[Array, "..."] | float = number()
    end: Float[Array, "..."] | float = number()
    iterations: Float[Array, "..."] | float = number()

    def __call__(self, policy: Policy, iteration: Int[Array, ""]) -> Policy:
        """The policy with this iteration's standard deviation."""
        if not isinstance(policy, Gaussian):
            raise SettingError("explore", f"Annealed of {type(policy).__name__}", "Use a Gaussian")
        share = jnp.minimum(iteration / self.iterations, 1.0)
        log_std = (1 - share) * jnp.log(self.start) + share * jnp.log(self.end)
        log_std = jnp.broadcast_to(log_std, policy.log_std.shape).astype(policy.log_std.dtype)
        annealed: Policy = eqx.tree_at(lambda p: p.log_std, policy, log_std)
        return annealed


class LinearGaussianPolicy(Gaussian):
    """Normal actions with a mean that is linear in features of the observation.

    Attributes:
      weights: `[F, A]`, trainable.
      features: maps one observation to `[F]`: `Affine`, `RadialBasis`, or any function.

    Examples:
      >>> policy = LinearGaussianPolicy(jnp.ones((3, 1)), log_std=jnp.zeros(1))
      >>> float(policy.mean(jnp.array([2.0, 3.0]))[0])
      6.0
    """

    weights: Float[Array, "*seeds F A"]
    features: Callable[[Any], Float[Array, "F"]] = Affine()

    def mean(self, observation: Any) -> Float[Array, "A"]:
        """Wᵀ φ(s)."""
        return self.weights.T @ self.features(observation)


class SoftClipped(LinearGaussianPolicy):
    """A `LinearGaussianPolicy` whose mean bends where the actuators clip.

    All actions beyond the actuators' range have the same effect, so no gradient brings back a mean
    that is far outside. The part of the mean outside the range is therefore shortened.

    Attributes:
      low: `[A]`, the least action that makes a difference.
      high: `[A]`, the largest action that makes a difference.

    Examples:
      >>> policy = LinearGaussianPolicy(jnp.ones((2, 1)), log_std=jnp.zeros(1))
      >>> bent = SoftClipped.of(policy, -1.0, 1.0)
      >>> [round(float(bent.mean(jnp.array([x]))[0]), 3) for x in (-0.5, 1.0)]
      [0.5, 1.3]
    """

    low: Float[Array, "*seeds A"] = eqx.field(kw_only=True)
    high: Float[Array, "*seeds A"] = eqx.field(kw_only=True)

    @classmethod
    def of(cls, policy: LinearGaussianPolicy, low: ArrayLike, high: ArrayLike) -> SoftClipped:
        """The same policy, except where its mean is outside the range."""
        low, high = (jnp.broadcast_to(x, policy.log_std.shape).astype(float) for x in (low, high))
        return cls(
            policy.weights,
            policy.features,
            log_std=policy.log_std,
            learn_std=policy.learn_std,
            low=low,
            high=high,
        )

    def mean(self, observation: Any) -> Float[Array, "A"]:
        """Wᵀ φ(s), with the part outside the range shortened."""
        straight = super().mean(observation)
        inside = jnp.clip(straight, *jax.lax.stop_gradient((self.low, self.high)))
        return inside + SHORTENED * (straight - inside)


class MLPGaussianPolicy(Gaussian):
    """Normal actions with a mean from a network and the same standard deviation everywhere.

    Attributes:
      network: maps the observation to the mean, trainable.

    Examples:
      >>> policy = MLPGaussianPolicy.create(jax.random.key(0), observations=8, actions=2)
      >>> policy.mean(jnp.zeros(8)).shape
      (2,)
    """

    network: MLP

    @classmethod
    def create(
        cls,
        key: Key[Array, ""],
        *,
        observations: int,
        actions: int,
        hidden: Sequence[int] = (32, 32),
        std: float = 1.0,
        learn_std: bool = True,
    ) -> MLPGaussianPolicy:
        """A random network of the given sizes."""
        network = MLP(key, (observations, *hidden, actions))
        log_std = jnp.full(actions, jnp.log(std), dtype=float)
        return cls(network, log_std=log_std, learn_std=learn_std)

    def mean(self, observation: Float[Array, "D"]) -> Float[Array, "A"]:
        """The network's output."""
        return self.network(observation)
