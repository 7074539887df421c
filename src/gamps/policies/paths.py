"""Policies between two policies: a log says much about those near the first, less further on."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gamps._utils.fields import number
from gamps.errors import SettingError
from gamps.policies.boltzmann import Boltzmann
from gamps.policies.gaussian import Gaussian
from gamps.policies.types import Policy


class Mixture(Policy):
    """Act as one of two policies, chosen at random at every step.

    Attributes:
      first: chosen otherwise.
      second: chosen with probability `share`.
      share: between 0 and 1.

    Examples:
      >>> coins = [Boltzmann(jnp.log(jnp.array([[p, 1 - p]])), jnp.ones_like) for p in (0.2, 0.6)]
      >>> one = jnp.asarray(0)
      >>> round(float(jnp.exp(Mixture(*coins, 0.5).log_prob(jnp.ones(1), one))), 3)
      0.4
    """

    first: Policy
    second: Policy
    share: Float[Array, ""] | float = number()

    def log_prob(self, observation: Any, action: Any) -> Float[Array, ""]:
        """Log of the mixed density."""
        return jnp.logaddexp(
            jnp.log1p(-self.share) + self.first.log_prob(observation, action),
            jnp.log(self.share) + self.second.log_prob(observation, action),
        )

    @property
    def choices(self) -> int | None:
        """Number of actions, the same for both policies."""
        return self.first.choices

    @property
    def noise_size(self) -> int:
        """One number to choose the policy, then as many as the policy that needs more."""
        return 1 + max(self.first.noise_size, self.second.noise_size)

    def act(self, observation: Any, noise: Float[Array, "Z"]) -> Any:
        """The action of `second` if Φ of the first number is below `share`, else of `first`."""
        chosen = jax.scipy.special.ndtr(noise[0]) < self.share
        actions = [p.act(observation, noise[1:][: p.noise_size]) for p in (self.first, self.second)]
        return jax.tree.map(lambda a, b: jnp.where(chosen, b, a), *actions)

    def mode(self, observation: Any) -> Any:
        """The most likely action of the policy that is chosen more often."""
        modes = [p.mode(observation) for p in (self.first, self.second)]
        return jax.tree.map(lambda a, b: jnp.where(self.share > 0.5, b, a), *modes)


def between(start: Policy, end: Policy, share: float, spread: float | None = None) -> Policy:
    """A policy on the way from one to another.

    Interpolates every parameter and the log standard deviation of Gaussians of one class, and the
    logits of softmax policies of one class. For others it returns a `Mixture`.

    Args:
      start: the result at `share` 0.
      end: the result at `share` 1.
      share: share of the way from `start` to `end`.
      spread: the share for the standard deviation of a Gaussian; `share` by default.

    Examples:
      >>> from gamps.policies import LinearGaussianPolicy
      >>> ends = [LinearGaussianPolicy(jnp.full((2, 1), w), log_std=jnp.zeros(1)) for w in (0., 2.)]
      >>> between(*ends, 0.25).weights.ravel().tolist()
      [0.5, 0.5]
    """
    if not 0 <= share <= 1 or not 0 <= (spread or 0) <= 1:
        raise SettingError("share", f"{share}, {spread}", "Choose it from 0 to 1")
    if not has_path(start, end):
        return Mixture(start, end, share)
    start, end = _alike(start), _alike(end)
    moved: Policy = jax.tree.map(
        lambda a, b: (1 - share) * a + share * b if eqx.is_inexact_array(a) else a, start, end
    )
    if not isinstance(start, Gaussian) or not isinstance(end, Gaussian) or spread is None:
        return moved
    log_std = (1 - spread) * start.log_std + spread * end.log_std
    wider: Policy = eqx.tree_at(lambda p: p.log_std, moved, log_std)
    return wider


def has_path(start: Policy, end: Policy) -> bool:
    """Whether the policies are of one class and differ only in numbers that can be interpolated."""
    if type(start) is not type(end) or not isinstance(start, (Gaussian, Boltzmann)):
        return False
    numbers, rest = zip(*(eqx.partition(_alike(p), eqx.is_inexact_array) for p in (start, end)),
                        strict=True)  # fmt: skip
    shapes = [[leaf.shape for leaf in jax.tree.leaves(n)] for n in numbers]
    return shapes[0] == shapes[1] and bool(eqx.tree_equal(*rest))


def _alike(policy: Policy) -> Policy:
    """Ignore whether a policy's standard deviation may be learned."""
    return dataclasses.replace(policy, learn_std=False) if isinstance(policy, Gaussian) else policy
