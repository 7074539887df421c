"""The fit of an ensemble."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key

from gamps.models import Ensemble, Model
from gamps.search.fitting.closed_form import negative_log_likelihood
from gamps.trajectories import Trajectories


def bootstrapped(
    key: Key[Array, ""], weights: Float[Array, "N T"]
) -> tuple[Key[Array, ""], Float[Array, "N T"]]:
    """Return a key for the fit of one member, and that member's weights.

    Each trajectory's weights are multiplied by one exponential random number: the Bayesian
    bootstrap. Members then differ as far as the log leaves them free to.
    """
    key_fit, key_weights = jax.random.split(key)
    luck = jax.random.exponential(key_weights, (len(weights), 1), weights.dtype)
    return key_fit, luck * weights


class EachMember(eqx.Module):
    """Fit each member of an ensemble separately, on its own bootstrap of the weights.

    Attributes:
      fit: how one member is fitted.
    """

    fit: Callable[..., tuple[Any, Float[Array, ""]]]

    def __call__(
        self,
        key: Key[Array, ""],
        model: Ensemble,
        trajectories: Trajectories,
        weights: Float[Array, "N T"],
    ) -> tuple[Ensemble, Float[Array, ""]]:
        """Fit all members; the loss is that of the mixture, with the given weights."""

        def each(key: Array, member: Model) -> Model:
            key_fit, member_weights = bootstrapped(key, weights)
            fitted: Model = self.fit(key_fit, member, trajectories, member_weights)[0]
            return fitted

        # One at a time: each stops when it is done, and batching small products gains nothing.
        arrays, static = eqx.partition(model.members, eqx.is_array)

        def fit_arrays(both: Any) -> Any:
            key, arrays = both
            return eqx.filter(each(key, eqx.combine(arrays, static)), eqx.is_array)

        arrays = jax.lax.map(fit_arrays, (jax.random.split(key, model.size), arrays))
        fitted = Ensemble(eqx.combine(arrays, static), model.size, model.support)
        return fitted, negative_log_likelihood(fitted, trajectories, weights)
