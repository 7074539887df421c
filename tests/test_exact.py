"""Identities against exact truth, over 505 random MDPs (2-6 states, 2-4 actions, γ to 0.99)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import truth
from gamps.exact import bounds, tabular
from gamps.models import Tabular
from gamps.search import gradients
from gamps.search.importance import Ratios, log_rho
from gamps.search.values import EpisodeReturn, Exact, PerDecisionReturn
from gamps.search.weights import GradientAware

pytestmark = pytest.mark.exact

SHAPES = [(2, 2), (3, 4), (4, 3), (5, 2), (6, 4)]
PER_SHAPE = 101
ORDERS = (1.0, 2.0, np.inf)


def finite_differences(function, x, h=1e-3):
    """Fourth-order central differences of a scalar function."""

    def along(direction):
        values = [function(x + k * h * direction) for k in (-2, -1, 1, 2)]
        return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)

    return jax.vmap(along)(jnp.eye(x.size).reshape(-1, *x.shape))


def random_problem(seed, n_states, n_actions):
    """An MDP, a policy, a behaviour policy, a test function and a wrong model."""
    rng = np.random.default_rng(seed)
    discount = 0.99 if seed % PER_SHAPE == 0 else 1 - 10 ** -rng.uniform(0, 2)
    return (
        truth.random_mdp(seed, n_states, n_actions, discount),
        truth.random_policy(seed, n_states, n_actions),
        truth.random_policy(seed + 10_000, n_states, n_actions),
        jnp.asarray(rng.normal(size=(n_states, n_actions))),
        truth.random_mdp(seed + 10_000, n_states, n_actions, discount).transitions,
    )


def identities(mdp, policy, behaviour, f, other):
    """Errors of every identity in one random MDP, and by how much the bounds hold."""
    discount = mdp.discount
    pi, scores = truth.tables(policy)
    pi_b, _ = truth.tables(behaviour)
    exact = tabular.policy_gradient(mdp, pi, scores)

    def expected_return(weights):
        moved = eqx.tree_at(lambda p: p.weights, policy, weights)
        return tabular.expected_return(mdp, truth.tables(moved)[0])

    def relative(found):
        return jnp.linalg.norm(found - exact) / jnp.linalg.norm(exact)

    def lemma(norms):
        _, z = tabular.score_magnitude(mdp, pi, norms)
        eta = tabular.gradient_aware_distribution(mdp, pi, norms)
        walked = truth.weighted_occupancy(mdp, pi, pi_b, norms, 4000) * (1 - discount) ** 2 / z
        return jnp.abs(jnp.sum(eta * f) - jnp.sum(walked * f)), jnp.abs(jnp.sum(eta) - 1)

    norms = jnp.stack([jnp.linalg.norm(scores, ord=q, axis=-1) for q in ORDERS])
    slack = []
    for q in ORDERS:
        error = jnp.linalg.norm(exact - tabular.model_value_gradient(mdp, other, pi, scores), ord=q)
        for bound in (bounds.gradient_aware_bound, bounds.twice_visited_bound):
            slack.append(bound(mdp, other, pi, scores, q=q) / error)
    v = tabular.state_values(mdp, pi)
    bellman = mdp.rewards + mdp.discount * mdp.transitions @ v
    occupancy = tabular.occupancy(mdp, pi)
    flow = (1 - mdp.discount) * mdp.initial + mdp.discount * jnp.einsum(
        "sa,sat->t", occupancy, mdp.transitions
    )
    return {
        "lemma": jnp.max(jnp.stack(jax.vmap(lemma)(norms))),
        "finite_differences": relative(finite_differences(expected_return, policy.weights)),
        "automatic": relative(jax.grad(expected_return)(policy.weights).ravel()),
        "mvg": relative(tabular.model_value_gradient(mdp, mdp.transitions, pi, scores)),
        "bellman": jnp.max(jnp.abs(bellman - tabular.action_values(mdp, pi))),
        "flow": jnp.max(jnp.abs(flow - occupancy.sum(1))),
        "dual": jnp.abs(
            jnp.sum(occupancy * mdp.rewards) / (1 - discount) - tabular.expected_return(mdp, pi)
        ),
        "slack": jnp.min(jnp.stack(slack)),
    }


@pytest.fixture(scope="module")
def measured():
    found = []
    for i, (n_states, n_actions) in enumerate(SHAPES):
        seeds = range(i * PER_SHAPE, (i + 1) * PER_SHAPE)
        problems = truth.stacked([random_problem(s, n_states, n_actions) for s in seeds])
        found.append(jax.jit(jax.vmap(identities))(*problems))
    return {name: np.concatenate([f[name] for f in found]) for name in found[0]}


def test_at_least_500_problems(measured):
    assert len(measured["lemma"]) >= 500


@pytest.mark.parametrize(
    ("identity", "tolerance"),
    [
        ("lemma", 1e-8),
        ("finite_differences", 1e-6),
        ("automatic", 1e-8),
        ("mvg", 1e-10),
        ("bellman", 1e-10),
        ("flow", 1e-12),
        ("dual", 1e-9),
    ],
)
def test_identity(measured, identity, tolerance):
    worst = float(measured[identity].max())
    assert worst <= tolerance, f"{identity}: {worst} in problem {measured[identity].argmax()}"


def test_corrected_bounds_hold_everywhere(measured):
    assert (measured["slack"] >= 1).all()


@pytest.mark.parametrize("discount", [0.9, 0.99])
@pytest.mark.parametrize("q", ORDERS)
def test_printed_constant_is_broken_by_the_counterexample(discount, q):
    problem = bounds.counterexample(discount)
    error = float(bounds.gradient_error(*problem, q=q))
    assert error > float(bounds.gradient_aware_bound(*problem, q=q, printed=True))
    assert error <= float(bounds.gradient_aware_bound(*problem, q=q))


# The stages themselves, on every trajectory there is, weighted by its probability.

STEPS, END = 4, 2


def stage_errors(full, policy, behaviour, enumerated, q):
    """Expected ω and gradients of the stages, by enumeration, against recursions."""
    mdp, key = truth.cut_at(full, END), jax.random.key(0)
    log, probability = truth.enumerated_log(
        eqx.tree_at(lambda m: m.initial, full, mdp.initial), behaviour, enumerated
    )
    (pi, scores), (pi_b, _) = truth.tables(policy), truth.tables(behaviour)
    task = truth.TableTask(full, END).task()
    model = Tabular(jnp.log(full.transitions))
    ratios = Ratios.of(log_rho(policy, log), log.mask, task.discount)
    scale = jnp.exp(ratios.log_scale)
    norms = jnp.linalg.norm(scores, ord=q, axis=-1)

    weights = GradientAware(q=q)(policy, log, ratios) * scale * probability[:, None]
    table = jnp.zeros_like(pi).at[log.states, log.actions].add(weights)
    walked = truth.weighted_occupancy(mdp, pi, pi_b, norms, STEPS)

    def expected_gradient(values):
        weighted = (
            values(key, policy, model, task, log, ratios).weighted_q_values * probability[:, None]
        )
        return truth.flat(gradients.off_policy(policy, log, weighted)) * len(probability) * scale

    def cut_off_return(weights):
        moved = eqx.tree_at(lambda p: p.weights, policy, weights)
        return tabular.expected_return(mdp, truth.tables(moved)[0], horizon=STEPS)

    truncated = jax.grad(cut_off_return)(policy.weights).ravel()
    q_values = tabular.action_values(mdp, pi)
    model_based = tabular.gradient_from(mdp, pi, scores, q_values, horizon=STEPS)
    return {
        "probability": jnp.abs(jnp.sum(probability) - 1),
        "weights": jnp.max(jnp.abs(table - walked)),
        "gamps": jnp.max(jnp.abs(expected_gradient(Exact()) - model_based)),
        "pgt": jnp.max(jnp.abs(expected_gradient(PerDecisionReturn()) - truncated)),
        "reinforce": jnp.max(jnp.abs(expected_gradient(EpisodeReturn()) - truncated)),
    }


@pytest.mark.parametrize("q", [*ORDERS, 3.5])
def test_stages_are_unbiased_by_enumeration(q):
    enumerated = truth.enumerate_trajectories(3, 2, STEPS, END)
    problems = truth.stacked(
        [
            (
                truth.random_mdp(seed, 3, 2, 0.9),
                truth.random_policy(seed, 3, 2),
                truth.random_policy(seed + 100, 3, 2),
            )
            for seed in range(20)
        ]
    )
    errors = jax.jit(jax.vmap(lambda *p: stage_errors(*p, enumerated, float(q))))(*problems)
    for name, error in errors.items():
        assert float(error.max()) <= 1e-10, f"{name}: {float(error.max())}"
