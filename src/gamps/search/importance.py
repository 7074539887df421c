"""Importance ratios in log space, and how far they can be trusted.

`log_rho[i, t]` = Σ_{l≤t} log π(a_l|s_l) - log π_b(a_l|s_l). It is exponentiated in one place only,
`exponentiate`, after its maximum is taken out: even for a ratio of 2, the product overflows float32
at step 127.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Bool, Float

from gamps._utils.fields import as_number
from gamps.errors import SettingError
from gamps.policies import Policy, log_probs
from gamps.trajectories import Trajectories


class Ratios(NamedTuple):
    """The ratios of one iteration, in the form that every later stage uses.

    Attributes:
      log_rho: `[N, T]`, log ρ_{0:t}.
      discounted_rho: `[N, T]`, γ^t ρ_{0:t} divided by exp(log_scale); in [0, 1], zero where padded.
      log_scale: log of the scale taken out.
    """

    log_rho: Float[Array, "N T"]
    discounted_rho: Float[Array, "N T"]
    log_scale: Float[Array, ""]

    @classmethod
    def of(
        cls,
        log_rho: Float[Array, "N T"],
        mask: Bool[Array, "N T"],
        discount: Float[Array, ""] | float,
    ) -> Ratios:
        """Make ratios from log ρ: discount and exponentiate."""
        steps = jnp.arange(log_rho.shape[1], dtype=log_rho.dtype)
        discounted = log_rho + steps * jnp.log(discount).astype(log_rho.dtype)
        return cls(log_rho, *exponentiate(discounted, mask))


def log_rho(policy: Policy, trajectories: Trajectories) -> Float[Array, "N T"]:
    """Cumulative log-ratio of τ_{0:t}; padded steps repeat the last real one.

    It is -inf from the first action that `policy` cannot take, and in trajectories without a step,
    which pad a shard.
    """
    ratios = log_probs(policy, trajectories) - trajectories.behaviour_log_prob
    cumulative = jnp.cumsum(jnp.where(trajectories.mask, ratios, 0.0), axis=1)
    return jnp.where(trajectories.mask[:, :1], cumulative, -jnp.inf)


def exponentiate(
    log_weights: Float[Array, "*shape"], mask: Bool[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, ""]]:
    """exp(log_weights), scaled so that the largest is one.

    Args:
      log_weights: any shape; -inf is allowed, +inf is not.
      mask: True where a weight counts.

    Returns:
      Weights in [0, 1], zero where masked, and the log of the scale taken out: the true weights
      are `weights * exp(log_scale)`, which may be too large to represent.
    """
    peak = jnp.max(jnp.where(mask, log_weights, -jnp.inf))
    log_scale = jax.lax.stop_gradient(jnp.where(jnp.isfinite(peak), peak, 0.0))
    # Masking inside exp keeps an overflow in padding out of it; its NaN would survive a later mask.
    shifted = jnp.where(mask, log_weights - log_scale, -jnp.inf)
    return jnp.exp(shifted), log_scale


def _positive(value: Any) -> Array:
    if isinstance(value, (int, float, np.floating)) and not value > 0:
        raise SettingError("maximum", f"{value}", "Choose a positive ratio, for example 5")
    return as_number(value)


class Clip(eqx.Module):
    """Truncated ratios, ρ ≤ `maximum`: less variance for some bias.

    Attributes:
      maximum: traced, so sweeping it does not recompile.

    Examples:
      >>> [round(float(x), 3) for x in Clip(2.0)(jnp.array([[0.0, 5.0]]))[0]]
      [0.0, 0.693]
    """

    maximum: Float[Array, "*seeds"] | float = eqx.field(converter=_positive)

    def __call__(self, log_rho: Float[Array, "N T"]) -> Float[Array, "N T"]:
        """Truncate the cumulative log-ratios."""
        return jnp.minimum(log_rho, jnp.log(self.maximum).astype(log_rho.dtype))


class Window(eqx.Module):
    """Ratios of the last `steps` steps only, ρ_{t-w+1:t}: much less variance for some bias.

    The log's states then stand in for the policy's, corrected only for the last `w` actions. With
    as many steps as the log has, nothing is left out.

    Attributes:
      steps: `w`.

    Examples:
      >>> Window(2)(jnp.array([[1.0, 2.0, 4.0, 7.0]]))[0].tolist()
      [1.0, 2.0, 3.0, 5.0]
    """

    steps: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if self.steps < 1:
            raise SettingError("steps", f"{self.steps}", "Keep at least the last step")

    def __call__(self, log_rho: Float[Array, "N T"]) -> Float[Array, "N T"]:
        """Cumulative log-ratios, without the steps before the window."""
        before = jnp.pad(log_rho, ((0, 0), (self.steps, 0)))[:, : log_rho.shape[1]]
        # An action that the policy cannot take makes both -inf, and their difference undefined.
        return jnp.where(jnp.isfinite(log_rho), log_rho - before, log_rho)


class Chain(eqx.Module):
    """Several transformations of log ρ, one after the other.

    Attributes:
      parts: for example `(Window(10), Clip(5.0))`.
    """

    parts: tuple[Callable[[Float[Array, "N T"]], Float[Array, "N T"]], ...]

    def __call__(self, log_rho: Float[Array, "N T"]) -> Float[Array, "N T"]:
        """Apply the parts in order."""
        for part in self.parts:
            log_rho = part(log_rho)
        return log_rho


def self_normalise(log_rho: Float[Array, "N T"]) -> Float[Array, "N T"]:
    """Ratios that average to one at each step, over all `N` trajectories.

    A trajectory that has ended keeps its last ratio in the average, since it still represents its
    share of the probability.
    """
    total = logsumexp(log_rho, axis=0, keepdims=True)
    total = jnp.where(jnp.isfinite(total), total, 0.0)
    return log_rho - total + jnp.log(len(log_rho))


def effective_sample_size(log_weights: Float[Array, "n"]) -> Float[Array, ""]:
    """Kish's (Σw)² / Σw² from log-weights; between 1 and n, or 0 if all weights are zero."""
    peak = jnp.max(log_weights)
    weights = jnp.exp(log_weights - jnp.where(jnp.isfinite(peak), peak, 0.0))
    squares = jnp.sum(weights**2)
    return jnp.where(squares > 0, jnp.sum(weights) ** 2 / jnp.where(squares > 0, squares, 1.0), 0.0)


SAME = 1e-4  # a smaller relative difference between ratios is only rounding
GOLDEN = 0.6180339887
LEAST_GAP = 1e-30  # between the logarithms of a tail weight and the weight below the tail
Numbers = TypeVar("Numbers", Array, np.ndarray)


def pareto_k(log_weights: Numbers) -> Numbers:
    """Tail index of the weights: above 0.7, do not trust an importance-sampling average.

    A generalised Pareto distribution is fitted to the excesses of the largest min(n/5, 3√n)
    weights by the profile posterior mean of Zhang and Stephens (2009), with the weak prior of
    Pareto-smoothed importance sampling (Vehtari et al., 2024).

    All of it is computed on logarithms. When the index matters most, one weight dominates, and the
    others would vanish in single precision.

    Args:
      log_weights: `[n]`, not necessarily normalised; NumPy arrays are computed with NumPy, in
        their own precision.

    Returns:
      The index; 0 for a constant tail, +inf if the tail has fewer than five weights.
    """
    xp: Any = np if isinstance(log_weights, np.ndarray) else jnp
    n = len(log_weights)
    size = int(min(n / 5, 3 * n**0.5))
    if size < 5:
        return xp.asarray(xp.inf, dtype=log_weights.dtype)
    # Zero weights are not part of a tail, nor of a fit to it.
    nothing = log_weights == -xp.inf
    least = xp.min(xp.where(nothing, xp.inf, log_weights))
    logs = xp.sort(xp.where(nothing, xp.where(least < xp.inf, least, 0.0), log_weights))
    # Ratios of choices repeat, and repeated values have no tail to fit. Spread them by at most half
    # of their size, which leaves the index of a heavy tail unchanged.
    top, same = logs[-size - 1 :], np.log1p(SAME)
    constant = top[-1] - top[0] <= same
    repeats = 5 * xp.sum(top[1:] - top[:-1] <= same) >= size
    shares = np.log(0.5 + (np.arange(n) * GOLDEN) % 1.0).astype(logs.dtype)
    top = xp.where(repeats, xp.sort(logs + shares)[-size - 1 :], top)
    # Logarithms of the excesses x over the largest: x / max x = exp(u).
    u = top[1:] + xp.log(-xp.expm1(-xp.maximum(top[1:] - top[0], LEAST_GAP)))
    u = u - u[-1]

    def index(a: Any) -> Any:
        """Mean of log(1 - θx), where 1 - θ max x = exp(a); it neither vanishes nor overflows."""
        near = xp.log1p(xp.expm1(xp.minimum(a, 1.0)) * xp.exp(u))
        far = xp.logaddexp(0.0, a + xp.log1p(-xp.exp(-xp.maximum(a, 1.0))) + u)
        return xp.mean(xp.where(a > 1, far, near), axis=-1)

    grid = 30 + int(size**0.5)
    steps = (xp.sqrt(grid / (np.arange(grid) + 0.5).astype(logs.dtype)) - 1) / 3
    quartile = u[int(size / 4 + 0.5) - 1]
    a = xp.log(steps) - quartile
    k = index(a[:, None])
    # log(-θ/k); both have the same sign, and where both vanish it is the exponential limit.
    flat = (k == 0) | (a == 0)
    sizes = xp.maximum(a, 0.0) + xp.log(-xp.expm1(-xp.abs(xp.where(flat, 1.0, a))))
    ratio = sizes - xp.log(xp.abs(xp.where(flat, 1.0, k)))
    profile = size * (xp.where(flat, -xp.log(xp.mean(xp.exp(u))), ratio) - k)
    posterior = xp.exp(profile - xp.max(profile))
    best = xp.log(xp.sum(posterior * steps) / xp.sum(posterior)) - quartile
    estimate = (index(best) * size + 0.5 * 10) / (size + 10)
    return xp.where(constant, xp.zeros_like(estimate), estimate)


def thin(values: Float[Array, "N"], most: int = 4096) -> Float[Array, "n"]:
    """Every k-th value, `most` of them; a tail index needs no more, wherever they lie."""
    if len(values) <= most:
        return values
    return values[jnp.arange(most) * (len(values) // most)]


def whole_episode(log_rho: Float[Array, "N T"], mask: Bool[Array, "N T"]) -> Float[Array, "N"]:
    """Log ρ_{0:T-1}: log ρ at each trajectory's last real step."""
    last = jnp.sum(mask, axis=1) - 1
    return jnp.take_along_axis(log_rho, last[:, None], axis=1)[:, 0]
