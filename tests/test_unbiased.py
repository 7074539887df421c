"""z-tests of sampled gradients against exact ones, at a stated false-alarm rate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import truth
from gamps.envs import collect
from gamps.exact import tabular
from gamps.models import Tabular
from gamps.search import gradients
from gamps.search.importance import Ratios, log_rho
from gamps.search.values import EpisodeReturn, Exact, PerDecisionReturn

N, T, END, DISCOUNT = 100_000, 12, 3, 0.9
FALSE_ALARM = 1e-6
N_STATES, N_ACTIONS = 4, 3


@pytest.fixture(scope="module")
def problem():
    full = truth.random_mdp(0, N_STATES, N_ACTIONS, DISCOUNT)
    cut = truth.cut_at(full, END)
    full = tabular.MDP(full.transitions, full.rewards, cut.initial, full.discount)
    policy = truth.random_policy(1, N_STATES, N_ACTIONS, scale=0.5)
    other = truth.random_policy(2, N_STATES, N_ACTIONS, scale=0.5)
    return full, cut, policy, other


def per_trajectory_gradients(values, policy, model, task, log):
    """The estimator on each trajectory by itself."""

    def one(row):
        alone = jax.tree.map(lambda leaf: leaf[None], row)
        ratios = Ratios.of(log_rho(policy, alone), alone.mask, task.discount)
        weighted = values(jax.random.key(0), policy, model, task, alone, ratios)
        gradient = gradients.off_policy(policy, alone, weighted.weighted_q_values)
        return truth.flat(gradient) * jnp.exp(ratios.log_scale)

    return jax.vmap(one)(log)


@pytest.mark.parametrize("off_policy", [False, True])
@pytest.mark.parametrize("values", [Exact(), PerDecisionReturn(), EpisodeReturn()])
def test_sampled_gradient_is_unbiased(problem, values, off_policy):
    full, cut, policy, other = problem
    pi, scores = truth.tables(policy)
    task = truth.TableTask(full, END).task()
    model = Tabular(jnp.log(full.transitions))

    @jax.jit
    def sample(key):
        behaviour = other if off_policy else policy
        log = collect(truth.TableEnv(full, END), behaviour, key, n=N, steps=T)
        return per_trajectory_gradients(values, policy, model, task, log)

    samples = np.asarray(sample(jax.random.key(5)))
    if isinstance(values, Exact):
        q_values = tabular.action_values(cut, pi)
        exact = tabular.gradient_from(cut, pi, scores, q_values, horizon=T)
    else:
        q_values = None
        exact = jax.grad(
            lambda w: tabular.expected_return(
                cut, truth.tables(truth.Boltzmann(w, policy.features))[0], horizon=T
            )
        )(policy.weights).ravel()
    error = samples.std(axis=0, ddof=1) / np.sqrt(N)
    reached = error > 0  # the rows of the end state are never visited
    assert reached.sum() == (N_STATES - 1) * N_ACTIONS
    assert not np.asarray(exact)[~reached].any()
    z = (samples.mean(axis=0) - np.asarray(exact))[reached] / error[reached]
    limit = scipy.stats.norm.isf(FALSE_ALARM / (2 * reached.sum()))
    assert np.abs(z).max() < limit, f"z = {z}, limit {limit}"
