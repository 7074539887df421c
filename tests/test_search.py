"""The loop: protocol of recipes, compilations, seeds, extreme ratios."""

import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import truth
from gamps import search
from gamps.envs.two_areas import two_areas
from gamps.errors import SettingError
from gamps.models import Tabular
from gamps.paper.setup import log_of, logs_of, true_return
from gamps.paper.treatments import seed_keys
from gamps.search import importance, recipes
from gamps.search.values import MinimumVariance, NoBaseline, PerTime, StateValue
from gamps.tasks import Task
from gamps.trajectories import Trajectories
from test_importance import log_with

RECIPES = {
    name: getattr(recipes, name) for name in ("gamps", "gamps_paper", "ml", "pgt", "reinforce")
}
BASELINES = [NoBaseline(), PerTime(), MinimumVariance(), StateValue()]
ENV = two_areas("A")


def built(recipe, key, n=20, **parts):
    behaviour, log = log_of(ENV, key, n)
    assembled = recipe(log, ENV.task(), **parts)
    return assembled, assembled.init(behaviour, ENV.effect_model())


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_obeys_the_protocol(name):
    assembled, state = built(RECIPES[name], jax.random.key(0))
    new, info = eqx.filter_jit(assembled.step)(jax.random.key(1), state)
    assert jax.tree.structure(new) == jax.tree.structure(state)
    assert int(new.iteration) == 1
    assert all(jnp.isfinite(x).all() for x in info._replace(pareto_k=jnp.zeros(())))
    moved = new.policy.weights != state.policy.weights
    forced = np.asarray(state.policy.forced) >= 0
    assert moved.any()
    assert not moved[forced].any()


def test_run_improves_on_the_behaviour_policy():
    assembled, state = built(recipes.gamps, jax.random.key(0), n=100)
    measure = true_return(ENV)
    _, infos, returns = search.run(
        assembled, jax.random.key(1), state, iterations=30, measure=measure
    )
    assert float(returns[-1]) > float(measure(state)) + 5
    assert infos.ess.shape == (30,)


def test_the_fit_can_have_ratios_of_its_own():
    """A window in the weights alone moves ω; in both, it moves all; given to both, it is one."""
    assembled, state = built(recipes.gamps, jax.random.key(0))
    state = search.run(assembled, jax.random.key(1), state, iterations=5)[0]

    def step(**parts):
        changed, _ = built(recipes.gamps, jax.random.key(0), **parts)
        return eqx.filter_jit(changed.step)(jax.random.key(1), state)[1]

    window = importance.Window(1)
    plain, both, own = step(), step(ratio=window), step(weight_ratio=window)
    explicit = step(ratio=window, weight_ratio=window)
    assert own.weights_ess == both.weights_ess == explicit.weights_ess != plain.weights_ess
    assert own.ess == plain.ess != both.ess
    assert both.gradient_norm == explicit.gradient_norm != own.gradient_norm


@pytest.mark.parametrize("baseline", BASELINES[1:], ids=lambda b: type(b).__name__)
def test_a_baseline_leaves_the_expected_gradient(baseline):
    # On 20,000 on-policy trajectories the gradient must point the same way as without.
    no, state = built(recipes.gamps, jax.random.key(0), n=20_000, baseline=NoBaseline())
    with_baseline = eqx.tree_at(
        lambda s: s.baseline, no, baseline, is_leaf=lambda x: x is no.baseline
    )
    step = eqx.filter_jit(lambda s: s.step(jax.random.key(1), state)[0].optimiser.mu.weights)
    a, b = step(no), step(with_baseline)
    assert float(jnp.sum(a * b) / jnp.linalg.norm(a) / jnp.linalg.norm(b)) > 0.97


def test_a_policy_rests_where_too_few_trajectories_carry_it():
    free, state = built(recipes.gamps, jax.random.key(0))
    bound = eqx.tree_at(lambda s: s.least_ess, free, jnp.asarray(10.0))
    runs = {
        name: search.run(s, jax.random.key(1), state, iterations=30, measure=weights_of)
        for name, s in (("free", free), ("bound", bound))
    }
    ess, weights = runs["bound"][1].ess, runs["bound"][2]
    (first,) = np.flatnonzero(ess < 10.0)[:1]
    assert 0 < first < 29
    np.testing.assert_array_equal(weights[:first], runs["free"][2][:first])
    np.testing.assert_array_equal(weights[first:], np.stack([weights[first - 1]] * (30 - first)))
    assert (runs["free"][2][-1] != weights[-1]).any()


def weights_of(state):
    return state.policy.weights


class CountTraces(eqx.Module):
    """A baseline that counts how often it is traced, which is once a compilation."""

    name: str

    def __call__(self, policy, trajectories, ratios, values):
        TRACES.append(self.name)
        return jnp.zeros_like(values.weighted_q_values)


TRACES: list[str] = []


def test_twenty_seeds_compile_once_a_shape_and_equal_sequential_runs():
    keys = seed_keys(20)
    measure = true_return(ENV)
    TRACES.clear()
    returns = {}
    for n in (10, 15):
        for rate in (0.1, 0.2):
            behaviours, logs = logs_of(ENV, keys, n)

            def prepare(behaviour, log, rate=rate):
                assembled = recipes.gamps(
                    log, ENV.task(), baseline=CountTraces("seeds"), learning_rate=rate
                )
                return assembled, assembled.init(behaviour, ENV.effect_model())

            assembled, state = eqx.filter_vmap(prepare)(behaviours, logs)
            returns[n, rate] = search.run(assembled, keys, state, iterations=5, measure=measure)[2]
    # Two sizes of the log, two learning rates, five iterations, twenty seeds: two programs.
    assert TRACES == ["seeds", "seeds"]
    for seed in (0, 19):
        assembled, state = built(
            recipes.gamps, keys[seed], n=10, baseline=CountTraces("one"), learning_rate=0.2
        )
        alone = search.run(assembled, keys[seed], state, iterations=5, measure=measure)[2]
        np.testing.assert_allclose(alone, returns[10, 0.2][:, seed], rtol=1e-9)
    assert TRACES.count("one") == 1


@pytest.mark.full
def test_twenty_seeds_together_are_faster():
    """`benchmarks/seeds.py` shows five times and more; a loaded machine is granted half of that."""
    script = Path(__file__).parent.parent / "benchmarks" / "seeds.py"
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=environment
    )
    assert float(done.stdout.split()[-3]) >= 2.5, done.stdout


EXTREME = np.random.default_rng(0).choice([-30.0, 30.0, 0.0], size=(8, 1000)) * np.log(10)
RAMPS = np.stack([np.full(1000, np.log(10) * e) for e in (30, -30, 1, -1, 0, 15, -15, 29)])


def unit_reward(s, a, following):
    return jnp.asarray(-1.0)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("discount", [0.9, 0.99])
@pytest.mark.parametrize("ratios", [EXTREME, RAMPS], ids=["random", "ramps"])
@pytest.mark.parametrize("baseline", BASELINES, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("name", RECIPES)
def test_long_horizons_stay_finite(name, baseline, ratios, discount, dtype):
    """T = 1,000 with per-step ratios from 1e-30 to 1e30."""

    def cast(tree):
        return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, tree)

    policy = cast(truth.random_policy(0, 1, 2, scale=0.0))
    log: Trajectories = cast(log_with(ratios))
    task = Task(unit_reward, discount)
    assembled = cast(RECIPES[name](log, task, baseline=baseline))
    state = assembled.init(policy, cast(Tabular(jnp.zeros((1, 2, 1)))))
    if isinstance(baseline, StateValue) and name in ("pgt", "reinforce"):
        with pytest.raises(SettingError, match="have no V"):
            assembled.step(jax.random.key(0), state)
        return
    for i in range(3):
        state, info = _jitted_step(assembled, jax.random.key(i), state)
        for field in ("gradient_norm", "log_scale", "model_loss", "ess", "weights_ess"):
            assert jnp.isfinite(getattr(info, field)), field
        for leaf in jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array)):
            assert jnp.isfinite(leaf).all()
    assert state.policy.weights.dtype == dtype


@eqx.filter_jit
def _jitted_step(assembled, key, state):
    return assembled.step(key, state)
