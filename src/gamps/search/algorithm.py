"""The loop of Algorithm 1; every part can be exchanged."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

from gamps._utils.fields import number
from gamps.errors import SettingError
from gamps.policies import Policy
from gamps.search import gradients, importance, placement, sampling
from gamps.search.values import EpisodeReturn, PerDecisionReturn
from gamps.tasks import Task
from gamps.trajectories import Trajectories

Part = Callable[..., Any]

# Built once: a new optimiser object would be a new program to compile.
ADAM = optax.scale_by_adam()

# Adam squares the gradient, so float32 overflows above a norm of about 1e18.
LARGEST_LOG_NORM = 35.0


class State(NamedTuple):
    """What one iteration passes on to the next."""

    policy: Policy
    model: Any
    optimiser: Any
    iteration: Int[Array, ""]


class Info(NamedTuple):
    """What an iteration reports.

    Attributes:
      gradient_norm: 2-norm of the gradient, without the scale below.
      log_scale: log of the scale of gradient and weights, taken out before exponentiating.
      model_loss: weighted negative log-likelihood after the fit.
      ess: effective number of trajectories, from whole-episode ratios transformed by `ratio`.
      pareto_k: tail index of the same ratios.
      weights_ess: effective number of transitions in the fit.
    """

    gradient_norm: Float[Array, ""]
    log_scale: Float[Array, ""]
    model_loss: Float[Array, ""]
    ess: Float[Array, ""]
    pareto_k: Float[Array, ""]
    weights_ess: Float[Array, ""]


class Weighed(NamedTuple):
    """The ratios and weights of a log under a policy, before any model.

    Attributes:
      ratios: importance ratios of the policy to the logging policy.
      weights: ω, zero where padded.
      log_scale: log of the scale of ω.
    """

    ratios: importance.Ratios
    weights: Float[Array, "N T"]
    log_scale: Float[Array, ""]


class Gradient(NamedTuple):
    """A gradient and the pairs where it was taken.

    Attributes:
      ascent: a tree like the policy, without its scale.
      log_scale: log of the scale of the ascent.
      at: the pairs; None if they are not available, as when the log was read in parts.
    """

    ascent: Policy
    log_scale: Float[Array, ""]
    at: Trajectories | None


def _as_it_is(policy: Policy, iteration: Array) -> Policy:
    del iteration
    return policy


def _identity(log_rho: Float[Array, "N T"]) -> Float[Array, "N T"]:
    return log_rho


class Search(eqx.Module):
    """A policy search: the log, the known task, and one part for each stage.

    Attributes:
      trajectories: the log.
      task: reward, termination, discount.
      weighting: the `weights` part, which gives ω.
      fit: the `fitting` part, which gives p̂.
      values: the `values` part that gives Q.
      baseline: the `values` part that gives the baseline b.
      pairs: the `gradients` part: where the gradient is taken; the logged pairs by default.
      learning_rate: of the policy; traced, so sweeping it does not recompile.
      ratio: transforms log ρ, for example `importance.Window(10)`.
      weight_ratio: the same for ω alone; None transforms it like the rest.
      least_ess: a trust region: once the effective number of trajectories (`Info.ess`) is below
        this, the policy moves no further. Traced; 0 never stops, as in the paper.
      largest_kl: a trust region for the step: a step whose mean KL divergence at the pairs would
        exceed this is shortened; None sets no limit.
      units: size of one step in each parameter, as a tree like the policy's gradient. With
        `policies.natural_units` one learning rate works for any features. None means one each.
      sample: the part of the log that an iteration uses: all of it, or `sampling.Some`
        trajectories, drawn anew each time. Reported numbers then refer to these.
      explore: changes the policy before an iteration, by its number, as `policies.Annealed` does.
      optimiser: an optax transformation without its learning rate.
    """

    trajectories: Trajectories
    task: Task
    weighting: Part
    fit: Part
    values: Part
    baseline: Part
    learning_rate: Float[Array, "*seeds"] | float = number()
    ratio: Part = _identity
    weight_ratio: Part | None = None
    least_ess: Float[Array, "*seeds"] | float = number(0.0)
    pairs: Part = gradients.Logged()
    largest_kl: Float[Array, "*seeds"] | float | None = None
    units: Any = None
    sample: Part = sampling.whole
    explore: Part = _as_it_is
    optimiser: optax.GradientTransformation = ADAM

    def __check_init__(self) -> None:
        logged = isinstance(self.values, (PerDecisionReturn, EpisodeReturn))
        if logged and not isinstance(self.pairs, gradients.Logged):
            raise SettingError(
                "pairs",
                f"{type(self.pairs).__name__} with {type(self.values).__name__}",
                "A logged return belongs to a logged pair of a whole trajectory: use Logged()",
            )

    def init(self, policy: Policy, model: Any = None) -> State:
        """The state before the first iteration."""
        parameters = eqx.filter(policy, eqx.is_inexact_array)
        return State(policy, model, self.optimiser.init(parameters), jnp.asarray(0))

    def step(self, key: Key[Array, ""], state: State) -> tuple[State, Info]:
        """One iteration of Algorithm 1: weigh, fit, evaluate, climb."""
        key_fit, key_values = jax.random.split(key)
        key_pairs = jax.random.fold_in(key, 2)
        log = self.sample(jax.random.fold_in(key, 3), self.trajectories)
        policy = self.explore(state.policy, state.iteration)

        ratios, weights, _ = self.weigh(policy, log)
        model, loss = self.fit(key_fit, state.model, log, weights)
        gradient = self.gradient((key_pairs, key_values), policy, model, log, ratios)
        whole = importance.whole_episode(ratios.log_rho, log.mask)
        weights_ess = importance.effective_sample_size(jnp.log(weights).ravel())
        return self.climb(state, policy, model, gradient, whole, loss, weights_ess)

    def weigh(self, policy: Policy, log: Trajectories) -> Weighed:
        """The ratios of a policy on a log, and the weights ω that its model is fitted with."""
        cumulative = importance.log_rho(policy, log)
        ratios = importance.Ratios.of(self.ratio(cumulative), log.mask, self.task.discount)
        fit_ratios = ratios
        if self.weight_ratio is not None:
            log_rho = self.weight_ratio(cumulative)
            fit_ratios = importance.Ratios.of(log_rho, log.mask, self.task.discount)
        return Weighed(ratios, self.weighting(policy, log, fit_ratios), fit_ratios.log_scale)

    def gradient(
        self,
        keys: tuple[Key[Array, ""], Key[Array, ""]],
        policy: Policy,
        model: Any,
        log: Trajectories,
        ratios: importance.Ratios,
    ) -> Gradient:
        """The off-policy gradient on a log, with Q from the model.

        Args:
          keys: for the pairs and for the values.
          policy: the policy where the gradient is taken.
          model: the fitted model.
          log: the trajectories.
          ratios: ratios of the policy on the log.
        """
        key_pairs, key_values = keys
        at, at_ratios = self.pairs(key_pairs, policy, model, self.task, log, ratios)
        values = self.values(key_values, policy, model, self.task, at, at_ratios)
        baseline = self.baseline(policy, at, at_ratios, values)
        ascent = gradients.off_policy(policy, at, values.weighted_q_values - baseline)
        return Gradient(ascent, at_ratios.log_scale, at)

    def climb(
        self,
        state: State,
        policy: Policy,
        model: Any,
        gradient: Gradient,
        whole: Float[Array, "N"],
        model_loss: Float[Array, ""],
        weights_ess: Float[Array, ""],
    ) -> tuple[State, Info]:
        """End an iteration: take one step up the gradient, and collect what to report.

        Args:
          state: the state before the iteration.
          policy: the policy where the gradient was taken.
          model: the fitted model.
          gradient: the result of `gradient`.
          whole: log-ratios of whole episodes.
          model_loss: loss of the fit.
          weights_ess: effective number of transitions in the fit.
        """
        ess = importance.effective_sample_size(whole)
        norm, ascent = _scaled(gradient.ascent, gradient.log_scale)
        parameters = eqx.filter(policy, eqx.is_inexact_array)
        updates, optimiser = self.optimiser.update(ascent, state.optimiser, parameters)
        rate = jnp.where(ess >= self.least_ess, self.learning_rate, 0.0)
        change = jax.tree.map(lambda u: rate.astype(u.dtype) * u, updates)
        if self.units is not None:
            change = jax.tree.map(lambda c, unit: c * unit.astype(c.dtype), change, self.units)
        if self.largest_kl is None or gradient.at is None:
            policy = eqx.apply_updates(policy, change)
        else:
            policy = _within(policy, change, gradient.at, self.largest_kl)
        pareto_k = importance.pareto_k(importance.thin(whole))
        info = Info(norm, gradient.log_scale, model_loss, ess, pareto_k, weights_ess)
        return State(policy, model, optimiser, state.iteration + 1), info


def _scaled(gradient: Policy, log_scale: Float[Array, ""]) -> tuple[Float[Array, ""], Policy]:
    """The gradient's norm, and the gradient with its scale restored as far as Adam tolerates."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(g)) for g in jax.tree.leaves(gradient)]))
    unit = jnp.where(largest > 0, largest, 1.0)
    # Entries are at most one: no square overflows, and the direction is kept at any scale.
    direction = jax.tree.map(lambda g: g / unit, gradient)
    length = optax.tree.norm(direction)
    log_size = jnp.minimum(log_scale + jnp.log(unit), LARGEST_LOG_NORM)
    return unit * length, jax.tree.map(lambda g: g * jnp.exp(log_size), direction)


def _within(
    policy: Policy, change: Policy, at: Trajectories, largest: Float[Array, ""] | float
) -> Policy:
    """The policy after the change, or after as much of it as the divergence allows."""
    new: Policy = eqx.apply_updates(policy, change)
    each = jax.vmap(jax.vmap(lambda s: policy.divergence(new, s)))(at.states)
    mean = jnp.sum(jnp.where(at.mask, each, 0.0)) / jnp.sum(at.mask)
    # For small steps the divergence grows with the square of their length.
    share = jnp.where(mean > largest, jnp.sqrt(largest / jnp.where(mean > 0, mean, 1.0)), 1.0)
    shorter = jax.tree.map(lambda u: share.astype(u.dtype) * u, change)
    shortened: Policy = eqx.apply_updates(policy, shorter)
    return shortened


def _advance(
    search: Search, key: Array, state: State, measure: Callable[[State], Any]
) -> tuple[State, Info, Any]:
    state, info = search.step(jax.random.fold_in(key, state.iteration), state)
    return placement.replicated((state, info, measure(state)))


_one = eqx.filter_jit(_advance)
_many = eqx.filter_jit(
    eqx.filter_vmap(_advance, in_axes=(eqx.if_array(0), 0, eqx.if_array(0), None))
)


def nothing(state: State) -> None:
    """Measure nothing: the default of `run`."""
    del state


def run(
    search: Search,
    key: Array,
    state: State,
    *,
    iterations: int,
    measure: Callable[[State], Any] = nothing,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> tuple[State, Info, Any]:
    """Repeat `search.step`; each iteration is one compiled call.

    A log that `placement.laid_out` has put on several devices is processed where it lies.

    Args:
      search: the assembled algorithm.
      key: one key; or an array of keys, one for each seed, if every array of `search` and `state`
        has a leading axis of seeds (as `eqx.filter_vmap` of their construction gives). All seeds
        then run in one program.
      state: from `search.init`.
      iterations: number of steps.
      measure: called on each new state inside the compiled step; its results are kept.
      progress: wraps the range of iterations, for example in a progress bar.

    Returns:
      The last state, the infos, and the measurements; the latter two stacked with iterations as
      the leading axis.
    """
    if iterations < 1:
        raise SettingError("iterations", f"{iterations}", "Run at least one")
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        raise SettingError("key", f"an array of {key.dtype}", "Make it with jax.random.key(seed)")
    advance = _one if key.ndim == 0 else _many
    over = placement.mesh_of(search.trajectories)
    if over is not None:
        search, key, state = placement.everywhere((search, key, state), over)
    history = []
    with contextlib.nullcontext() if over is None else jax.set_mesh(over):
        for _ in progress(range(iterations)):
            state, *reported = advance(search, key, state, measure)
            history.append(tuple(reported))
    infos, measured = jax.tree.map(lambda *leaves: np.stack(leaves), *history)
    return state if over is None else placement.here(state), infos, measured


def program(search: Search, key: Array, state: State) -> str:
    """The compiled program of one iteration, as XLA text."""
    over = placement.mesh_of(search.trajectories)
    if over is not None:
        search, key, state = placement.everywhere((search, key, state), over)
    with contextlib.nullcontext() if over is None else jax.set_mesh(over):
        one: Any = _one
        return str(one.lower(search, key, state, nothing).compile().compiled.as_text())
