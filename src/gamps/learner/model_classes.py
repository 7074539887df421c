"""Model classes, and ensembles of one class."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from gamps.models import (
    Ensemble,
    LinearGaussianModel,
    LogRange,
    MLPGaussianModel,
    Model,
    Quadratic,
    concatenated,
)
from gamps.search.fitting import ClosedForm, Minibatches
from gamps.search.fitting.members import bootstrapped
from gamps.trajectories import Trajectories

PASSES, UPDATES = 50, 3_200  # at most, for the fit of a network: more would fit the noise

STDS: dict[str, Any] = {"least_std": 0.1, "most_std": 5.0}
# Settings, because a fit holds arrays, and no import may start JAX's devices.
NETWORK_FIT: dict[str, Any] = {
    "epochs": PASSES,
    "updates": UPDATES,
    "size": 256,
    "learning_rate": 5e-3,
    "patience": PASSES,
    "decay": True,
}


class ModelClass(NamedTuple):
    """A class of models, and how to fit it.

    Attributes:
      make: makes an unfitted model from a key and the log.
      fit: a `fitting` part.
    """

    make: Callable[[Key[Array, ""], Trajectories], Model]
    fit: Any


Classes = Mapping[str, ModelClass]
"""Model classes by name; the first one is fitted."""


def model_classes(
    features: Callable[[Any, Any], Float[Array, "F"]] = concatenated, *, rectified: bool = False
) -> Classes:
    """A network, which the default learner uses, and a quadratic, on the same features of (s, a).

    Args:
      features: features of one observation and one action; put what the actuators do here.
      rectified: whether an observation never grows; see `models.GaussianDifference`.
    """

    def quadratic(key: Array, log: Trajectories) -> Model:
        del key
        return _closed(Quadratic(features), log, rectified)

    def network(key: Array, log: Trajectories) -> Model:
        return MLPGaussianModel.create(
            key, log, hidden=(64, 64), features=features, rectified=rectified, **STDS
        )

    return {
        "network": ModelClass(network, Minibatches(**NETWORK_FIT)),
        "quadratic": ModelClass(quadratic, ClosedForm()),
    }


def _closed(features: Any, log: Trajectories, rectified: bool) -> LinearGaussianModel:
    example = jax.eval_shape(features, log.states[0, 0], log.actions[0, 0])
    zeros = jnp.zeros((example.shape[0], log.states.shape[-1]), dtype=float)
    least = jnp.full(log.states.shape[-1], 1e-3)
    return LinearGaussianModel(zeros, zeros, features, least, reweighted=True, rectified=rectified)


# One program each: an initialisation as dozens of small programs would mostly be compilation.
made = eqx.filter_jit(lambda make, key, log: make(key, log))
fitted = eqx.filter_jit(lambda fit, key, model, log, weights: fit(key, model, log, weights)[0])
_bootstrapped = eqx.filter_jit(bootstrapped)


def ensemble(
    key: Key[Array, ""],
    log: Trajectories,
    weights: Float[Array, "N T"],
    kind: ModelClass,
    members: int,
) -> Ensemble:
    """An ensemble of one class, each member fitted to its own bootstrap of the weighted log.

    The members are fitted one after the other, by one program.
    """

    def member(key_make: Array, key: Array) -> Model:
        key_fit, own = _bootstrapped(key, weights)
        model: Model = fitted(kind.fit, key_fit, made(kind.make, key_make, log), log, own)
        return model

    keys = [jax.random.split(key, members) for key in jax.random.split(key)]
    return _together([member(*both) for both in zip(*keys, strict=True)], log)


def unfitted(key: Key[Array, ""], log: Trajectories, kind: ModelClass, members: int) -> Ensemble:
    """An ensemble of the same structure before any fit."""
    return _together([made(kind.make, key, log)] * members, log)


@eqx.filter_jit
def _together(models: Sequence[Model], log: Trajectories) -> Ensemble:
    arrays = [eqx.filter(model, eqx.is_array) for model in models]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
    members = eqx.combine(stacked, models[0])
    return Ensemble(members, len(models), LogRange.of(log))
