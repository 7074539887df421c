"""Finite MDPs solved by linear algebra: the truth that every estimator is tested against.

Policies are given as a table `pi [S, A]` of probabilities and, where scores are needed, a table
`scores [S, A, d]` of ∇ log π(a|s). A terminal transition is either an absorbing state of zero
reward or missing mass (a row of `transitions` that sums to less than one).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from gamps._utils.linear import solve

# 2^16 steps: the remainder is below 1e-28 at γ = 0.999.
DOUBLINGS = 16


class MDP(eqx.Module):
    """A finite Markov decision process.

    Attributes:
      transitions: `[S, A, S]`, p(s'|s, a).
      rewards: `[S, A]`, r(s, a).
      initial: `[S]`, μ(s).
      discount: γ in [0, 1).
    """

    transitions: Float[Array, "S A S"]
    rewards: Float[Array, "S A"]
    initial: Float[Array, "S"]
    discount: Float[Array, ""]


def policy_table(policy: Any, states: Any, n_actions: int) -> Float[Array, "S A"]:
    """π(a|s) of a policy over discrete actions, at the observations `states`."""
    actions = jnp.arange(n_actions)
    return jnp.exp(jax.vmap(lambda s: jax.vmap(lambda a: policy.log_prob(s, a))(actions))(states))


def score_table(policy: Any, states: Any, n_actions: int) -> Float[Array, "S A d"]:
    """∇ log π(a|s) at the observations `states`, with parameters flattened."""
    parameters, static = eqx.partition(policy, eqx.is_inexact_array)

    def score(s: Any, a: Any) -> Array:
        gradient = jax.grad(lambda p: eqx.combine(p, static).log_prob(s, a))(parameters)
        return ravel_pytree(gradient)[0]

    actions = jnp.arange(n_actions)
    return jax.vmap(lambda s: jax.vmap(lambda a: score(s, a))(actions))(states)


def _kernel(mdp: MDP, pi: Float[Array, "S A"]) -> Float[Array, "SA SA"]:
    """p(s'|s, a) π(a'|s') as a matrix over state-action pairs."""
    pairs = pi.size
    return jnp.einsum("iaj,jb->iajb", mdp.transitions, pi).reshape(pairs, pairs)


def reachability(mdp: MDP, pi: Float[Array, "S A"]) -> Float[Array, "SA SA"]:
    """δ_{s,a}(s', a'), one row for each starting pair: (1 - γ) Σ_t (γK)^t.

    Summed by doubling, not by a linear solve: sums of products of non-negative numbers are exactly
    zero at pairs that cannot be reached, and a bound multiplies them by infinite divergences.
    """

    def double(_: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        total, power = carry
        return total + power @ total, power @ power

    first = mdp.discount * _kernel(mdp, pi)
    total = jnp.eye(len(first), dtype=first.dtype)
    return (1 - mdp.discount) * jax.lax.fori_loop(0, DOUBLINGS, double, (total, first))[0]


def occupancy(
    mdp: MDP, pi: Float[Array, "S A"], *, horizon: int | None = None
) -> Float[Array, "S A"]:
    """The discounted state-action distribution δ_μ = (1 - γ) Σ_t γ^t Pr(s_t = s, a_t = a).

    With a horizon only the first terms are added, with a total of 1 - γ^horizon. That is what logs
    cut off at that length can show.
    """
    start = (mdp.initial[:, None] * pi).ravel()
    if horizon is None:
        return (start @ reachability(mdp, pi)).reshape(pi.shape)
    kernel = _kernel(mdp, pi)

    def forward(mass: Array, _: None) -> tuple[Array, Array]:
        return mdp.discount * (mass @ kernel), mass

    masses = jax.lax.scan(forward, start, None, length=horizon)[1]
    return (1 - mdp.discount) * jnp.sum(masses, axis=0).reshape(pi.shape)


def action_values(
    mdp: MDP, pi: Float[Array, "S A"], *, horizon: int | None = None
) -> Float[Array, "S A"]:
    """Q(s, a), by one linear solve or by `horizon` sweeps of dynamic programming."""
    if horizon is None:
        mean = jnp.einsum("sa,sat->st", pi, mdp.transitions)
        eye = jnp.eye(len(pi), dtype=pi.dtype)
        right = jnp.sum(pi * mdp.rewards, axis=1, keepdims=True)
        v = solve(eye - mdp.discount * mean, right)[:, 0]
        return mdp.rewards + mdp.discount * mdp.transitions @ v

    def backward(_: Any, q: Array) -> Array:
        return mdp.rewards + mdp.discount * mdp.transitions @ jnp.sum(pi * q, axis=1)

    return jax.lax.fori_loop(0, horizon, backward, jnp.zeros_like(mdp.rewards))


def state_values(mdp: MDP, pi: Float[Array, "S A"]) -> Float[Array, "S"]:
    """V(s) = Σ_a π(a|s) Q(s, a)."""
    return jnp.sum(pi * action_values(mdp, pi), axis=1)


def expected_return(
    mdp: MDP, pi: Float[Array, "S A"], *, horizon: int | None = None
) -> Float[Array, ""]:
    """J = E_μ[V(s_0)], for infinite episodes or for those cut off at `horizon`."""
    return mdp.initial @ jnp.sum(pi * action_values(mdp, pi, horizon=horizon), axis=1)


def optimal_values(mdp: MDP, *, sweeps: int = 10_000) -> Float[Array, "S"]:
    """V*(s) by value iteration."""

    def sweep(_: Any, v: Array) -> Array:
        return jnp.max(mdp.rewards + mdp.discount * mdp.transitions @ v, axis=1)

    return jax.lax.fori_loop(0, sweeps, sweep, jnp.zeros_like(mdp.initial))


def gradient_from(
    mdp: MDP,
    pi: Float[Array, "S A"],
    scores: Float[Array, "S A d"],
    q_values: Float[Array, "S A"],
    *,
    horizon: int | None = None,
) -> Float[Array, "d"]:
    """Σ δ_μ(s, a) ∇ log π(a|s) Q(s, a) / (1 - γ), for any table of Q."""
    delta = occupancy(mdp, pi, horizon=horizon)
    return jnp.einsum("sa,sad,sa->d", delta, scores, q_values) / (1 - mdp.discount)


def policy_gradient(
    mdp: MDP, pi: Float[Array, "S A"], scores: Float[Array, "S A d"]
) -> Float[Array, "d"]:
    """∇J by the policy gradient theorem."""
    return gradient_from(mdp, pi, scores, action_values(mdp, pi))


def model_value_gradient(
    mdp: MDP,
    model_transitions: Float[Array, "S A S"],
    pi: Float[Array, "S A"],
    scores: Float[Array, "S A d"],
) -> Float[Array, "d"]:
    """The MVG of eq. gradient_approximation, with δ of the true MDP and Q of the model."""
    imagined = eqx.tree_at(lambda m: m.transitions, mdp, model_transitions)
    return gradient_from(mdp, pi, scores, action_values(imagined, pi))


def score_magnitude(
    mdp: MDP, pi: Float[Array, "S A"], norms: Float[Array, "S A"]
) -> tuple[Float[Array, "S A"], Float[Array, ""]]:
    """The distribution ν of the score norm, and Z, its mean under δ_μ (Theorem weighting)."""
    mass = occupancy(mdp, pi) * norms
    total = jnp.sum(mass)
    return mass / total, total


def gradient_aware_distribution(
    mdp: MDP, pi: Float[Array, "S A"], norms: Float[Array, "S A"]
) -> Float[Array, "S A"]:
    """η(s, a) = Σ ν(s', a') δ_{s',a'}(s, a): where the gradient needs the model (eq. eta_redef)."""
    nu, _ = score_magnitude(mdp, pi, norms)
    return (nu.ravel() @ reachability(mdp, pi)).reshape(pi.shape)
