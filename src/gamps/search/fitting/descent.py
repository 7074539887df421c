"""Fits by gradient descent, for models without a closed form."""

from types import NoneType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from gamps._utils.fields import count, number
from gamps.errors import SettingError
from gamps.models import Model
from gamps.search.fitting.closed_form import negative_log_likelihood
from gamps.trajectories import Trajectories, flat

LEAST_PASSES = 32  # passes that limited updates are split into: the rate falls between passes


class GradientDescent(eqx.Module):
    """Adam on the weighted likelihood with early stopping, all inside the compiled step.

    Attributes:
      steps: largest number of full-batch steps.
      learning_rate: of Adam; traced, so it can be swept.
      patience: stop after this many steps without a new lowest loss; the lowest is returned.
      start: the model that every fit starts from; None continues from the last one.
    """

    steps: int = eqx.field(default=300, static=True)
    learning_rate: Float[Array, "*seeds"] | float = number(0.01)
    patience: int = eqx.field(default=5, static=True)
    start: Model | None = None

    def __call__(
        self,
        key: Key[Array, ""],
        model: Model,
        trajectories: Trajectories,
        weights: Float[Array, "N T"],
    ) -> tuple[Model, Float[Array, ""]]:
        """Fit by descent."""
        del key
        initial = model if self.start is None else self.start
        parameters, static = eqx.partition(initial, eqx.is_inexact_array)
        adam = optax.scale_by_adam()

        def loss_of(parameters: Any) -> Array:
            return negative_log_likelihood(eqx.combine(parameters, static), trajectories, weights)

        def more(carry: Any) -> Array:
            *_, stale, step = carry
            return (step < self.steps) & (stale < self.patience)

        def descend(carry: Any) -> Any:
            parameters, moments, best, lowest, stale, step = carry
            loss, gradient = jax.value_and_grad(loss_of)(parameters)
            better = loss < lowest
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), parameters, best)
            updates, moments = adam.update(gradient, moments, parameters)
            parameters = jax.tree.map(
                lambda p, u: p - jnp.asarray(self.learning_rate, p.dtype) * u, parameters, updates
            )
            stale, lowest = jnp.where(better, 0, stale + 1), jnp.where(better, loss, lowest)
            return parameters, moments, best, lowest, stale, step + 1

        start_loss = jnp.full((), jnp.inf, dtype=weights.dtype)
        none = jnp.asarray(0)
        start = (parameters, adam.init(parameters), parameters, start_loss, none, none)
        last, _, best, lowest, *_ = jax.lax.while_loop(more, descend, start)
        loss = loss_of(last)
        fitted = jax.tree.map(lambda new, old: jnp.where(loss <= lowest, new, old), last, best)
        return eqx.combine(fitted, static), jnp.where(loss <= lowest, loss, lowest)


def all_finite(tree: Any) -> Array:
    """Whether every number in a tree of arrays is finite."""
    # One reduction: one per leaf would take three times as long to compile as the rest of a fit.
    return jnp.isfinite(jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(tree)])).all()


class Minibatches(eqx.Module):
    """Adam on minibatches of the weighted likelihood, the usual way to fit a network.

    Attributes:
      epochs: largest number of passes. A pass has as many minibatches as the log would fill,
        padding included. They are drawn from its real steps with replacement, because shuffling a
        log takes longer than learning from it. Traced: a shorter fit is the same program.
      size: transitions in a minibatch.
      batches: largest number of minibatches per pass; None means as many as the log would fill.
      updates: largest number of minibatches in total, so passes may be fewer; None sets no limit.
        With a limit, the cost of a fit stops growing with the log.
      learning_rate: of Adam; traced, so it can be swept.
      patience: stop after this many passes without a new lowest training loss.
      decay: let the learning rate fall to zero over the epochs, by half a cosine.
      start: the model that every fit starts from; None continues from the last one.
    """

    epochs: Int[Array, "*seeds"] | int = count(300)
    size: int = eqx.field(default=500, static=True)
    batches: int | None = eqx.field(default=None, static=True)
    updates: int | None = eqx.field(default=None, static=True)
    learning_rate: Float[Array, "*seeds"] | float = number(1e-3)
    patience: Int[Array, "*seeds"] | int = count(5)
    decay: bool = eqx.field(default=False, static=True)
    start: Model | None = None

    def __check_init__(self) -> None:
        for name in ("epochs", "size", "batches", "updates", "patience"):
            value = getattr(self, name)
            if not isinstance(value, (jax.core.Tracer, NoneType)) and np.min(value) < 1:
                raise SettingError(name, f"{value}", "Choose at least one")

    def __call__(
        self,
        key: Key[Array, ""],
        model: Model,
        trajectories: Trajectories,
        weights: Float[Array, "N T"],
    ) -> tuple[Model, Float[Array, ""]]:
        """Fit by descent; the loss is the mean over the last pass that stayed finite."""
        initial = model if self.start is None else self.start
        parameters, static = eqx.partition(initial, eqx.is_inexact_array)
        adam = optax.scale_by_adam()
        mask = trajectories.mask
        used = jnp.where(mask, weights, 0.0)
        # Mean one over real steps, so that the learning rate does not depend on ω's scale.
        used = used * (jnp.sum(mask) / jnp.maximum(jnp.sum(used), jnp.finfo(used.dtype).tiny))
        log = (trajectories.states, trajectories.actions, trajectories.next_states, used)
        transitions = jax.tree.map(flat, log)
        size = min(self.size, mask.size)
        count = max(mask.size // size, 1)
        count = count if self.batches is None else min(count, self.batches)
        epochs = self.epochs
        if self.updates is not None:
            count = min(count, max(self.updates // LEAST_PASSES, 1))
            epochs = jnp.minimum(epochs, -(-self.updates // count))
        real = jnp.flatnonzero(mask, size=mask.size, fill_value=0)

        def loss_of(parameters: Any, chosen: Any) -> Array:
            *transition, weights = chosen
            log_prob = jax.vmap(eqx.combine(parameters, static).log_prob)(*transition)
            return -jnp.mean(jnp.where(weights > 0, weights * log_prob, 0.0))

        def descend(carry: Any, chosen: Any, rate: Array) -> tuple[Any, Array]:
            parameters, moments = carry
            loss, gradient = jax.value_and_grad(loss_of)(parameters, chosen)
            updates, moments = adam.update(gradient, moments, parameters)
            parameters = jax.tree.map(
                lambda p, u: p - rate.astype(p.dtype) * u, parameters, updates
            )
            return (parameters, moments), loss

        def epoch(carry: Any) -> Any:
            learned, lowest, last, stale, passes = carry
            drawn = jax.random.fold_in(key, passes)
            rows = real[jax.random.randint(drawn, (count, size), 0, jnp.sum(mask))]
            rate = jnp.asarray(self.learning_rate)
            if self.decay:
                rate = rate * (1 + jnp.cos(jnp.pi * passes / epochs)) / 2

            def batch(learned: Any, rows: Array) -> tuple[Any, Array]:
                return descend(learned, jax.tree.map(lambda x: x[rows], transitions), rate)

            new, losses = jax.lax.scan(batch, learned, rows)
            loss = jnp.mean(losses)
            finite = jnp.isfinite(loss) & all_finite(new)
            # Undo a pass that diverged, with its moments: they would make the next one diverge too.
            learned = jax.tree.map(lambda n, o: jnp.where(finite, n, o), new, learned)
            stale = jnp.where(finite, jnp.where(loss < lowest, 0, stale + 1), self.patience)
            lowest = jnp.where(finite, jnp.minimum(loss, lowest), lowest)
            return learned, lowest, jnp.where(finite, loss, last), stale, passes + 1

        def more(carry: Any) -> Array:
            *_, stale, passes = carry
            return (passes < epochs) & (stale < self.patience)

        infinite = jnp.full((), jnp.inf, dtype=used.dtype)
        none = jnp.asarray(0)
        start = ((parameters, adam.init(parameters)), infinite, infinite, none, none)
        (parameters, _), _, loss, *_ = jax.lax.while_loop(more, epoch, start)
        return eqx.combine(parameters, static), loss
