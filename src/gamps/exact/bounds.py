"""The paper's bounds on finite MDPs, as printed and as they hold.

All of them bound ‖∇J - ∇J^MVG‖_q, or its estimate, for a model p̂ used in place of p. There are two
constants. `printed=True` gives (1 - γ)^-2 as in the paper; a 3-state MDP violates it (see
`counterexample`). The default gives (1 - γ)^-3, for which the proof holds, because
Q = Σ δ r / (1 - γ) when δ is normalised.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gamps.exact import tabular


def kl_divergence(
    transitions: Float[Array, "S A S"], model_transitions: Float[Array, "S A S"]
) -> Float[Array, "S A"]:
    """D_KL(p(·|s, a) ‖ p̂(·|s, a)), infinite where p̂ excludes a possible transition."""
    positive = transitions > 0
    ratio = jnp.where(positive, transitions, 1.0) / jnp.where(positive, model_transitions, 1.0)
    return jnp.sum(jnp.where(positive, transitions * jnp.log(ratio), 0.0), axis=-1)


def score_norm_table(scores: Float[Array, "S A d"], q: float) -> Float[Array, "S A"]:
    """‖∇ log π(a|s)‖_q for a table of scores."""
    return jnp.linalg.norm(scores, ord=q, axis=-1)


def _constant(mdp: tabular.MDP, *, printed: bool) -> Float[Array, ""]:
    largest = jnp.max(jnp.abs(mdp.rewards))
    power = 2 if printed else 3
    return mdp.discount * math.sqrt(2) * largest / (1 - mdp.discount) ** power


def _expected(distribution: Float[Array, "S A"], kl: Float[Array, "S A"]) -> Float[Array, ""]:
    # 0 · ∞ = 0: a pair that is never reached does not matter, however wrong the model is there.
    return jnp.sum(jnp.where(distribution > 0, distribution * kl, 0.0))


def gradient_error(
    mdp: tabular.MDP,
    model_transitions: Float[Array, "S A S"],
    pi: Float[Array, "S A"],
    scores: Float[Array, "S A d"],
    *,
    q: float,
) -> Float[Array, ""]:
    """‖∇J - ∇J^MVG‖_q, the error that the bounds limit."""
    truth = tabular.policy_gradient(mdp, pi, scores)
    model = tabular.model_value_gradient(mdp, model_transitions, pi, scores)
    return jnp.linalg.norm(truth - model, ord=q)


def gradient_aware_bound(
    mdp: tabular.MDP,
    model_transitions: Float[Array, "S A S"],
    pi: Float[Array, "S A"],
    scores: Float[Array, "S A d"],
    *,
    q: float,
    printed: bool = False,
) -> Float[Array, ""]:
    """Theorem 1: γ √2 Z R_max (1 - γ)^-3 √E_η[KL].

    It holds with exponent 3. With `printed=True` (exponent 2) it is not a bound.
    """
    norms = score_norm_table(scores, q)
    _, z = tabular.score_magnitude(mdp, pi, norms)
    eta = tabular.gradient_aware_distribution(mdp, pi, norms)
    kl = kl_divergence(mdp.transitions, model_transitions)
    return _constant(mdp, printed=printed) * z * jnp.sqrt(_expected(eta, kl))


def gradient_unaware_bound(
    mdp: tabular.MDP,
    model_transitions: Float[Array, "S A S"],
    pi: Float[Array, "S A"],
    scores: Float[Array, "S A d"],
    *,
    q: float,
    printed: bool = False,
) -> Float[Array, ""]:
    """The maximum-likelihood bound: γ √2 K R_max (1 - γ)^-3 √E_δ[KL], K the largest score norm.

    Its printed proof replaces ∫ δ_μ δ_{s',a'} by δ_μ, which is wrong. So it does not follow that
    the bound holds, nor that it is looser than Theorem 1. The argument does give an expectation
    under the distribution of the second visit, `twice_visited_bound`. In random MDPs we have not
    seen this bound violated with exponent 3, and have seen it below Theorem 1's.
    """
    largest = jnp.max(score_norm_table(scores, q))
    kl = kl_divergence(mdp.transitions, model_transitions)
    expected = _expected(tabular.occupancy(mdp, pi), kl)
    return _constant(mdp, printed=printed) * largest * jnp.sqrt(expected)


def twice_visited_bound(
    mdp: tabular.MDP,
    model_transitions: Float[Array, "S A S"],
    pi: Float[Array, "S A"],
    scores: Float[Array, "S A d"],
    *,
    q: float,
) -> Float[Array, ""]:
    """A score-free bound that does hold: Theorem 1 with the largest score norm, K, everywhere.

    E_δ becomes the expectation under Σ δ_μ(s', a') δ_{s',a'}, the η of a constant score.
    """
    norms = score_norm_table(scores, q)
    flat = tabular.gradient_aware_distribution(mdp, pi, jnp.ones_like(norms))
    kl = kl_divergence(mdp.transitions, model_transitions)
    return _constant(mdp, printed=False) * jnp.max(norms) * jnp.sqrt(_expected(flat, kl))


class MomentConstants(NamedTuple):
    """c_1 and c_2 of the finite-sample theorem."""

    c1: float
    c2: float


def moment_constants(*, chi1: float, chi2: float, chi3: float, discount: float) -> MomentConstants:
    """The corollary's constants, with two slips of the paper fixed.

    c_1² = χ_2 χ_3 (1 + γχ_1) / ((1 - γ)(1 - γχ_1)³) and c_2² = χ_2 / ((1 - γ)³(1 - γχ_1)). The
    paper's c_2 also contains χ_3, which bounds log p̂ and is not part of the gradient's moment. And
    χ_2 must bound E[(π/π_b ‖score‖)²], one square less on the norm than printed.

    Args:
      chi1: bounds E_{π_b}[(π/π_b)²] in every state; below 1/γ.
      chi2: bounds E_{π_b}[(π/π_b ‖score‖_q)²] in every state.
      chi3: bounds E_p[(log p̂)²] in every state-action pair.
      discount: γ.

    Returns:
      c_1 and c_2; infinite if χ_1 ≥ 1/γ, where the corollary says nothing.
    """
    ratio = discount * chi1
    if ratio >= 1:
        return MomentConstants(math.inf, math.inf)
    c1 = chi3 * chi2 * (1 + ratio) / ((1 - discount) * (1 - ratio) ** 3)
    c2 = chi2 / ((1 - discount) ** 3 * (1 - ratio))
    return MomentConstants(math.sqrt(c1), math.sqrt(c2))


def deviation(*, n: int, d: int, pseudo_dimension: int, delta: float) -> float:
    """ε of the finite-sample theorem: ξ Γ(ξ), with ξ² = (v log(2eN/v) + log(8(d+1)/δ)) / N."""
    v = pseudo_dimension
    xi = math.sqrt((v * math.log(2 * math.e * n / v) + math.log(8 * (d + 1) / delta)) / n)
    return xi * (0.5 + math.sqrt(max(0.0, 1 + 0.5 * math.log(1 / xi))))


def finite_sample_bound(
    *,
    n: int,
    d: int,
    q: float,
    pseudo_dimension: int,
    delta: float,
    constants: MomentConstants,
    z: float,
    reward_max: float,
    discount: float,
    approximation: float,
    printed: bool = False,
) -> float:
    """The finite-sample theorem, for the fitted model and the estimated gradient.

    2 R_max (d^{1/q} c_2 ε + γ √(2 Z c_1 ε) (1 - γ)^-2) plus the best model's Theorem-1 bound, with
    probability 1 - δ. The paper states 1 - 4δ, but the rescaling of δ inside ε already covers all
    2(d + 1) events. `printed=True` gives the paper's exponents, one less in each term.

    Args:
      n: number of trajectories.
      d: number of policy parameters.
      q: order of the norm.
      pseudo_dimension: v, of both hypothesis spaces.
      delta: δ.
      constants: from `moment_constants`.
      z: expected score norm.
      reward_max: R_max.
      discount: γ.
      approximation: inf over the model class of E_η[KL].
      printed: use the constants as the paper prints them.

    Returns:
      The bound on ‖∇̂J - ∇J‖_q. It is vacuous for all but enormous `n`.
    """
    epsilon = deviation(n=n, d=d, pseudo_dimension=pseudo_dimension, delta=delta)
    root = 0.0 if q == math.inf else 1 / q
    power = 1 if printed else 2
    fitting = discount * math.sqrt(2 * z * constants.c1 * epsilon) / (1 - discount) ** power
    estimation = 2 * reward_max * (d**root * constants.c2 * epsilon + fitting)
    scale = discount * math.sqrt(2) * z * reward_max / (1 - discount) ** (power + 1)
    return estimation + scale * math.sqrt(approximation)


def counterexample(
    discount: float = 0.9,
) -> tuple[tabular.MDP, Float[Array, "S A S"], Float[Array, "S A"], Float[Array, "S A d"]]:
    """A 3-state MDP in which Theorem 1 with its printed constant fails.

    One decision in state 0 leads to a state that pays 1 for ever or to one that pays -1 for ever.
    The model mixes the two up a little. The policy is a fair coin, a softmax of two logits.

    Returns:
      The MDP, the model's transitions, the policy and its scores.
    """
    mix = 0.05
    truth = np.zeros((3, 2, 3))
    truth[0, 0], truth[0, 1] = [0, 1 - mix, mix], [0, mix, 1 - mix]
    truth[1, :, 1] = truth[2, :, 2] = 1
    model = truth.copy()
    model[0] = [[0, 1 - 3 * mix, 3 * mix], [0, 3 * mix, 1 - 3 * mix]]
    rewards = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]])
    scores = np.zeros((3, 2, 2))
    scores[0] = [[0.5, -0.5], [-0.5, 0.5]]
    mdp = tabular.MDP(
        transitions=jnp.asarray(truth, dtype=float),
        rewards=jnp.asarray(rewards, dtype=float),
        initial=jnp.asarray([1.0, 0.0, 0.0], dtype=float),
        discount=jnp.asarray(discount, dtype=float),
    )
    pi = jnp.asarray(np.full((3, 2), 0.5), dtype=float)
    return mdp, jnp.asarray(model, dtype=float), pi, jnp.asarray(scores, dtype=float)
