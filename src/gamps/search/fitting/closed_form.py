"""The likelihood itself, and fits that need no optimisation."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.errors import SettingError
from gamps.models import ClosedFormModel, Ensemble, Model
from gamps.trajectories import Trajectories, flat


def negative_log_likelihood(
    model: Model, trajectories: Trajectories, weights: Float[Array, "N T"]
) -> Float[Array, ""]:
    """-Σ ω log p̂(s'|s, a) / Σ ω, over real steps of positive weight."""
    log_prob = jax.vmap(jax.vmap(model.log_prob))(
        trajectories.states, trajectories.actions, trajectories.next_states
    )
    used = trajectories.mask & (weights > 0)
    total = jnp.sum(jnp.where(used, weights, 0.0))
    loss = jnp.sum(jnp.where(used, -weights * log_prob, 0.0))
    return loss / jnp.where(total > 0, total, 1.0)


class ClosedForm(eqx.Module):
    """Fit a model from its sufficient statistics.

    This is the exact maximiser of the weighted likelihood for models with finitely many states, and
    weighted least squares for `models.LinearGaussianModel`.
    """

    def __call__(
        self,
        key: Key[Array, ""],
        model: Model,
        trajectories: Trajectories,
        weights: Float[Array, "N T"],
    ) -> tuple[ClosedFormModel, Float[Array, ""]]:
        """Fit from scratch; `model` gives only the shape."""
        del key
        if not isinstance(model, ClosedFormModel):
            each = isinstance(model, Ensemble)
            raise SettingError(
                "fit",
                f"ClosedForm(), but {type(model).__name__} has no closed form",
                f"Use fit={'EachMember(ClosedForm())' if each else 'GradientDescent()'}",
            )
        used = jnp.where(trajectories.mask, weights, 0.0)
        # The maximiser does not depend on the scale, but float32 sums of tiny weights do.
        used = used / jnp.maximum(jnp.max(used), jnp.finfo(used.dtype).tiny)
        transitions = (trajectories.states, trajectories.actions, trajectories.next_states, used)
        fitted = model
        for _ in range(model.passes):
            fitted = fitted.from_statistics(fitted.statistics(*map(flat, transitions)))
        return fitted, negative_log_likelihood(fitted, trajectories, weights)


class Keep(eqx.Module):
    """No fit, for recipes without a model or with a model known beforehand."""

    def __call__(
        self,
        key: Key[Array, ""],
        model: Any,
        trajectories: Trajectories,
        weights: Float[Array, "N T"],
    ) -> tuple[Any, Float[Array, ""]]:
        """Return the model unchanged."""
        del key, trajectories
        return model, jnp.zeros((), dtype=weights.dtype)
