"""How much each logged transition counts when the model is fitted (ω of eq. objectiveP).

A weighting is a callable `(policy, trajectories, ratios) -> weights [N, T]`. Weights may be off by
a common factor, which does not change the maximiser of a likelihood.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from gamps._utils.fields import as_number
from gamps.errors import SettingError
from gamps.policies import Policy, score_norms
from gamps.search.importance import Ratios
from gamps.trajectories import Trajectories


class GradientAware(eqx.Module):
    """ω_t = γ^t ρ_{0:t} Σ_{l≤t} ‖∇ log π(a_l|s_l)‖_q, the weights of GAMPS.

    Attributes:
      q: order of the norm, 1 ≤ q ≤ ∞; the paper uses 2.
    """

    q: float = eqx.field(default=2.0, static=True)

    def __check_init__(self) -> None:
        if not self.q >= 1:
            raise SettingError("q", f"{self.q}", "A norm needs q ≥ 1; use math.inf for the maximum")

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios
    ) -> Float[Array, "N T"]:
        """`[N, T]`, zero where padded."""
        norms = jnp.where(trajectories.mask, score_norms(policy, trajectories, q=self.q), 0.0)
        return ratios.discounted_rho * jnp.cumsum(norms, axis=1)


class Ones(eqx.Module):
    """Every logged transition counts alike: maximum likelihood."""

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios
    ) -> Float[Array, "N T"]:
        """`[N, T]`, one on real steps."""
        del policy
        return trajectories.mask.astype(ratios.discounted_rho.dtype)


def _share(name: str, default: float) -> Any:
    """A field for a traced number from zero to one."""

    def checked(value: Any) -> Array:
        if isinstance(value, (int, float, np.floating)) and not 0 <= value <= 1:
            raise SettingError(name, f"{value}", "Choose it in [0, 1]")
        return as_number(value)

    return eqx.field(default=default, converter=checked)


class Mixed(eqx.Module):
    """Weights of mean one, part gradient-aware and part uniform.

    A model that only sees what the gradient needs now forgets the rest, and with few effective
    transitions it fits their noise. A uniform share limits how few there can be.

    Attributes:
      base: ω.
      uniform: share of the weight that is equal for all transitions; traced.
    """

    base: Callable[..., Float[Array, "N T"]] = GradientAware()
    uniform: Float[Array, "*seeds"] | float = _share("uniform", 0.5)

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios
    ) -> Float[Array, "N T"]:
        """`[N, T]`, zero where padded."""
        mask = trajectories.mask
        omega = jnp.where(mask, self.base(policy, trajectories, ratios), 0.0)
        scale = jnp.sum(mask) / jnp.maximum(jnp.sum(omega), jnp.finfo(omega.dtype).tiny)
        uniform = jnp.asarray(self.uniform, omega.dtype)
        return jnp.where(mask, uniform + (1 - uniform) * scale * omega, 0.0)


class Tempered(eqx.Module):
    """ω^β with mean one: maximum likelihood at β = 0, gradient-aware at β = 1.

    Attributes:
      base: ω.
      exponent: β in [0, 1]; traced.
    """

    base: Callable[..., Float[Array, "N T"]] = GradientAware()
    exponent: Float[Array, "*seeds"] | float = _share("exponent", 0.5)

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios
    ) -> Float[Array, "N T"]:
        """`[N, T]`, zero where padded."""
        mask = trajectories.mask
        omega = jnp.where(mask, self.base(policy, trajectories, ratios), 0.0)
        return tempered(omega, mask, jnp.asarray(self.exponent, omega.dtype))


def tempered(
    omega: Float[Array, "N T"], mask: Bool[Array, "N T"], exponent: Float[Array, ""] | float
) -> Float[Array, "N T"]:
    """ω to a power, with mean one over real steps.

    Computed on logarithms, with the largest taken out. Zero stays zero unless the power is zero.
    """
    log = jnp.where(mask & (omega > 0), jnp.log(jnp.where(omega > 0, omega, 1.0)), -jnp.inf)
    largest = jnp.max(log)
    log = log - jnp.where(jnp.isfinite(largest), largest, 0.0)
    power = jnp.where(exponent == 0, 1.0, jnp.exp(exponent * log))
    power = jnp.where(mask, power, 0.0)
    total = jnp.maximum(jnp.sum(power), jnp.finfo(omega.dtype).tiny)
    return power * (jnp.sum(mask) / total)


class RewardWeighted(eqx.Module):
    """u_c(ω) = c exp(-c ω), the weights of reward-weighted regression (the paper's appendix).

    c is found by its closed-form M-step, c ← Σ u_c(ω) / Σ u_c(ω) ω, from c = 1 / mean(ω). For
    positive c, u_c falls as ω grows, so taken literally the transitions that the gradient needs
    most count least; and repeated M-steps let c grow without bound. The appendix leaves both to
    future work, so the default is one step. The E-step's factor p̂(s'|s, a) is left out, as in the
    appendix's closed forms.

    Attributes:
      base: ω.
      steps: number of M-steps for c.
    """

    base: Callable[..., Float[Array, "N T"]] = GradientAware()
    steps: int = eqx.field(default=1, static=True)

    def __call__(
        self, policy: Policy, trajectories: Trajectories, ratios: Ratios
    ) -> Float[Array, "N T"]:
        """`[N, T]`, up to the factor c; zero where padded."""
        mask = trajectories.mask
        omega = self.base(policy, trajectories, ratios)
        tiny = jnp.finfo(omega.dtype).tiny

        def mean(c: Array) -> Array:
            u = jnp.where(mask, jnp.exp(-c * omega), 0.0)
            return jnp.maximum(jnp.sum(u * omega) / jnp.maximum(jnp.sum(u), tiny), tiny)

        c = jnp.zeros((), omega.dtype)
        for _ in range(self.steps + 1):
            c = 1 / mean(c)
        return jnp.where(mask, jnp.exp(-c * omega), 0.0)
