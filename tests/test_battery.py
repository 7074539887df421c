"""One battery a kind of part: a policy or model passes by being listed.

Densities sum or integrate to one, draws follow them (chi-square, Kolmogorov-Smirnov and binomial
tests at a false-alarm rate of 1e-6 each), scores equal finite differences, and float32 gives the
gradient of float64.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree

import truth
from gamps.envs import Minigolf
from gamps.models import ActionEffect, Ensemble, LinearGaussianModel, MLPGaussianModel, Tabular
from gamps.policies import (
    Affine,
    Boltzmann,
    LinearGaussianPolicy,
    MLPGaussianPolicy,
    OneHot,
    RadialBasis,
    SoftClipped,
)
from gamps.trajectories import Trajectories

KEY = jax.random.key(3)
DRAWS = 20_000
FALSE_ALARM = 1e-6


def normal(seed, *shape, scale=1.0):
    return scale * jax.random.normal(jax.random.key(seed), shape)


def any_features(observation):
    x = jnp.asarray(observation, dtype=float)
    return jnp.stack([x, x**2, jnp.ones_like(x)])


def waves(observation):
    return jnp.stack([jnp.sin(observation[0]), observation[0], jnp.ones(())])


class Case(NamedTuple):
    """A density of `outcome` given `inputs`, discrete (the outcomes listed) or on a grid.

    `grid` are the points of each dimension; `atoms` are outcomes of positive probability.
    """

    part: object
    inputs: tuple
    outcomes: jax.Array | None = None
    grid: tuple = ()
    atoms: tuple = ()


def discrete_policy(policy):
    return [Case(policy, (jnp.array(s),), jnp.arange(4)) for s in range(3)]


def gaussian_policy(policy, observation):
    mean, std = np.asarray(policy.mean(observation)), np.exp(np.asarray(policy.log_std))
    grid = tuple(np.linspace(m - 9 * s, m + 9 * s, 241) for m, s in zip(mean, std, strict=True))
    return [Case(policy, (observation,), grid=grid)]


POINT, PLANE = jnp.array([0.7]), jnp.array([0.4, -1.1])
CENTRES = jnp.linspace(0.0, 2.0, 4)[:, None]
STD_1, STD_2 = jnp.array([0.3]), jnp.array([0.3, -0.4])
POLICIES = {
    "one-hot": discrete_policy(truth.random_policy(3, 3, 4)),
    "forced": discrete_policy(
        Boltzmann(truth.random_policy(3, 3, 4).weights, OneHot(3), jnp.array([-1, 2, -1]))
    ),
    "features": discrete_policy(Boltzmann(normal(3, 3, 4), any_features)),
    "affine": gaussian_policy(
        LinearGaussianPolicy(normal(1, 3, 2), Affine(), log_std=STD_2), PLANE
    ),
    "radial": gaussian_policy(
        LinearGaussianPolicy(normal(1, 4, 1), RadialBasis(CENTRES, 0.5), log_std=STD_1), POINT
    ),
    "radial, normalised": gaussian_policy(
        LinearGaussianPolicy(normal(1, 4, 1), RadialBasis(CENTRES, 0.5, True), log_std=STD_1), POINT
    ),
    "user's features": gaussian_policy(
        LinearGaussianPolicy(normal(1, 3, 1), waves, log_std=STD_1), POINT
    ),
    "fixed std": gaussian_policy(
        LinearGaussianPolicy(normal(1, 2, 1), log_std=STD_1, learn_std=False), POINT
    ),
    "bent": gaussian_policy(  # one mean beyond the range, one within
        SoftClipped.of(
            LinearGaussianPolicy(normal(1, 3, 2), log_std=STD_2), jnp.array([-0.1, -9.0]), 9.0
        ),
        PLANE,
    ),
    "network": gaussian_policy(
        MLPGaussianPolicy.create(KEY, observations=2, actions=2, std=0.5), PLANE
    ),
}


def small_log(size):
    """Three random trajectories of `size` observations and one action."""
    return Trajectories(
        normal(5, 3, 6, size), normal(6, 3, 5, 1), jnp.zeros((3, 5)), jnp.zeros((3, 5)),
        jnp.ones((3, 5), bool), jnp.zeros(3, bool),
    )  # fmt: skip


def gaussian_model(model, observation, action):
    """Grid around every member's moments; an atom where a rectifier holds the ball."""
    if isinstance(model, Ensemble):
        each = model._each("moments", observation, action)
    else:
        each = model.moments(observation, action)
    mean, std = (np.asarray(x).reshape(-1, len(observation)) for x in each)
    low, high = (mean - 9 * std).min(axis=0), (mean + 9 * std).max(axis=0)
    if model_rectified(model):
        grid = tuple(
            o - h * (np.arange(1440)[::-1] + 0.5) / 1440
            for o, h in zip(np.asarray(observation), high, strict=True)
        )
        return [Case(model, (observation, action), grid=grid, atoms=(observation,))]
    grid = tuple(
        np.linspace(o + a, o + b, 1441 if len(low) == 1 else 241)
        for o, a, b in zip(np.asarray(observation), low, high, strict=True)
    )
    return [Case(model, (observation, action), grid=grid)]


def model_rectified(model):
    return getattr(model, "rectified", False)


def table_model(model):
    states = model.states()
    return [Case(model, (states[s], jnp.array(a)), None) for s, a in [(0, 1), (2, 3)]]


ACT = jnp.array([0.8])
POSITIVE = jnp.array([[0.5], [0.7]])
LINEAR_1 = LinearGaussianModel(normal(7, 2, 1), POSITIVE)
RECTIFIED = LinearGaussianModel(jnp.array([[0.1], [0.3]]), POSITIVE, rectified=True)
LINEAR_2 = LinearGaussianModel(
    normal(7, 3, 2), jnp.array([[0.6, 0.1], [-0.5, -0.3], [0.2, 0.4]]), least_std=0.2
)
GOLF = Minigolf()
TEE, STROKE = jnp.array([5.0]), jnp.array([1.5])
FARTHEST = float((TEE - (2 * GOLF.stroke(STROKE)) ** 2 / (2 * GOLF.deceleration(TEE)))[0])
MODELS = {
    "tabular": table_model(Tabular(normal(3, 3, 4, 3))),
    "action-effect": table_model(
        ActionEffect(normal(3, 4, 5), jax.random.randint(KEY, (3, 5), 0, 3))
    ),
    "linear": gaussian_model(LINEAR_1, POINT, ACT),
    "linear, rectified": gaussian_model(RECTIFIED, POINT, ACT),
    "linear, two dimensions": gaussian_model(LINEAR_2, PLANE, ACT),
    "network": gaussian_model(MLPGaussianModel.create(KEY, small_log(1)), POINT, ACT),
    "network, two dimensions": gaussian_model(
        MLPGaussianModel.create(KEY, small_log(2)), PLANE, ACT
    ),
    "ensemble": gaussian_model(
        Ensemble(
            eqx.filter_vmap(lambda k: MLPGaussianModel.create(k, small_log(1)))(
                jax.random.split(KEY, 3)
            ),
            3,
        ),
        POINT,
        ACT,
    ),
    # The density grows like one over a root at the near end: a grid that is even in the root.
    "minigolf itself": [
        Case(
            GOLF,
            (TEE, STROKE),
            grid=(5.0 - (5.0 - FARTHEST) * ((np.arange(20_000)[::-1] + 0.5) / 20_000) ** 2,),
            atoms=(TEE, jnp.array([FARTHEST])),
        )
    ],
}
CASES = {f"policy {k}": v for k, v in POLICIES.items()} | {
    f"model {k}": v for k, v in MODELS.items()
}


def outcomes_of(case):
    """Everything a discrete part can do."""
    if case.outcomes is not None:
        return case.outcomes
    model, (observation, _) = case.part, case.inputs
    if isinstance(model, ActionEffect):
        effects = jnp.arange(model.logits.shape[1])
        return jnp.stack([model.successors[observation[0]], effects], axis=1)
    return model.states()


def density(case, outcomes):
    each = eqx.filter_jit(jax.vmap(lambda x: case.part.log_prob(*case.inputs, x)))
    return np.exp(np.asarray(each(outcomes)))


def on_grid(case):
    """Density at the grid's points, and the weight of each (trapezoid)."""
    mesh = np.stack(np.meshgrid(*case.grid, indexing="ij"), axis=-1)
    values = density(case, jnp.asarray(mesh.reshape(-1, mesh.shape[-1])))
    weights = np.ones(())
    for points in case.grid:
        weights = np.multiply.outer(weights, np.gradient(points))
    return values.reshape(weights.shape), weights


def draws(case, how):
    """`DRAWS` outcomes, by `sample` or by the noise that rollouts use."""
    part, draw = case.part, "act" if len(case.inputs) == 1 else "step"
    if how == "sample":
        keys = jax.random.split(KEY, DRAWS)
        return np.asarray(jax.jit(jax.vmap(lambda k: part.sample(k, *case.inputs)))(keys))
    noise = normal(11, DRAWS, part.noise_size)
    return np.asarray(jax.jit(jax.vmap(lambda z: getattr(part, draw)(*case.inputs, z)))(noise))


def continuous(name):
    return bool(CASES[name][0].grid)


@pytest.mark.parametrize("name", CASES)
class TestPart:
    def test_density_has_mass_one(self, name):
        for case in CASES[name]:
            if not continuous(name):
                total = density(case, outcomes_of(case)).sum()
            else:
                values, weights = on_grid(case)
                total = (values * weights).sum()
                total += sum(density(case, atom[None])[0] for atom in case.atoms)
            # Sums over a grid are exact for a bell, but not where the density ends at an edge.
            cut = name in ("model linear, rectified", "model minigolf itself")
            tolerance = 1e-5 if cut else 1e-9
            assert total == pytest.approx(1.0, abs=tolerance)

    @pytest.mark.parametrize("how", ["sample", "noise"])
    def test_draws_follow_the_density(self, name, how):
        for case in CASES[name]:
            drawn = draws(case, how)
            if not continuous(name):
                assert_frequencies(drawn, outcomes_of(case), density(case, outcomes_of(case)))
                continue
            at_atom = np.zeros(DRAWS, dtype=bool)
            for atom in case.atoms:
                here = (drawn == np.asarray(atom)).all(axis=1)
                p = float(density(case, atom[None])[0])
                assert scipy.stats.binomtest(int(here.sum()), DRAWS, p).pvalue > FALSE_ALARM
                at_atom |= here
            if len(case.grid) == 2:  # all of them have independent dimensions
                assert scipy.stats.pearsonr(*drawn.T).pvalue > FALSE_ALARM
            values, weights = on_grid(case)
            for axis, points in enumerate(case.grid):
                rest = tuple(i for i in range(len(case.grid)) if i != axis)
                cumulative = np.cumsum((values * weights).sum(axis=rest))
                cdf = np.append(0.0, (cumulative[1:] + cumulative[:-1]) / 2) / cumulative[-1]
                found = scipy.stats.kstest(
                    drawn[~at_atom, axis], lambda x, p=points, c=cdf: np.interp(x, p, c)
                )
                assert found.pvalue > FALSE_ALARM

    def test_scores_equal_finite_differences(self, name):
        for case in CASES[name]:
            flat, value = scalar_of(case)
            score, h = jax.jit(jax.grad(value))(flat), 1e-5
            steps = h * jnp.eye(len(flat))
            ahead, behind = (jax.jit(jax.vmap(value))(flat + sign * steps) for sign in (1, -1))
            constant = constants_of(case)
            numeric = np.asarray((ahead - behind) / (2 * h))
            np.testing.assert_allclose(np.asarray(score)[~constant], numeric[~constant], atol=1e-6)
            assert not np.asarray(score)[constant].any()

    def test_float32_gives_the_gradient_of_float64(self, name):
        for case in CASES[name]:
            flat, value = scalar_of(case)
            exact = jax.jit(jax.grad(value))(flat)
            case32 = jax.tree.map(
                lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, case
            )
            flat, value = scalar_of(case32)
            assert flat.dtype == jnp.float32
            rough = jax.jit(jax.grad(value))(flat).astype(float)
            size = jnp.linalg.norm(exact) * jnp.linalg.norm(rough)
            assert float(size) == 0 or float(exact @ rough / size) >= 0.9999


def constants_of(case):
    """Which of the flat parameters must have no score: what is not trained, and a fixed std."""
    parameters = eqx.filter(case.part, eqx.is_inexact_array)
    fixed = ["features", "inputs", "outputs", "least_std", ".low", ".high"]
    if not getattr(case.part, "learn_std", True):
        fixed.append("log_std")
    marks = jax.tree_util.tree_map_with_path(
        lambda path, x: np.full(x.shape, any(f in jax.tree_util.keystr(path) for f in fixed)),
        parameters,
    )
    return np.concatenate([np.ravel(mark) for mark in jax.tree.leaves(marks)])


def scalar_of(case):
    """The parameters as one vector, and the log-density of a few fixed outcomes."""
    dtype = next(x.dtype for x in jax.tree.leaves(eqx.filter(case.part, eqx.is_inexact_array)))
    parameters, static = eqx.partition(case.part, eqx.is_inexact_array)
    flat, restore = ravel_pytree(parameters)
    if case.grid:
        quantiles = [p[[len(p) // 3, len(p) // 2 + 5, 5 * len(p) // 8]] for p in case.grid]
        outcomes = jnp.asarray(np.stack(quantiles, axis=1), dtype)
    else:
        outcomes = outcomes_of(case)
        outcomes = outcomes[density(case, outcomes) > 0]

    def value(flat):
        part = eqx.combine(restore(flat), static)
        return jnp.sum(jax.vmap(lambda x: part.log_prob(*case.inputs, x))(outcomes))

    return flat, value


def assert_frequencies(drawn, outcomes, probabilities):
    """Chi-square test on outcomes that can happen; others must not."""
    outcomes = np.asarray(outcomes).reshape(len(outcomes), -1)
    drawn = drawn.reshape(len(drawn), -1)
    counts = (drawn[:, None] == outcomes[None]).all(axis=-1).sum(axis=0)
    assert counts.sum() == len(drawn)
    assert not counts[probabilities == 0].any()
    possible = probabilities > 0
    if possible.sum() > 1:
        expected = probabilities[possible] * counts.sum()
        assert scipy.stats.chisquare(counts[possible], expected).pvalue > FALSE_ALARM


def test_the_battery_sees_a_wrong_density():
    """A standard deviation off by a tenth is caught by the draws."""
    good = POLICIES["radial"][0]
    wide = good._replace(part=eqx.tree_at(lambda p: p.log_std, good.part, good.part.log_std + 0.1))
    values, weights = on_grid(good)
    cdf = np.cumsum(values * weights)
    drawn = draws(wide, "noise")[:, 0]
    found = scipy.stats.kstest(drawn, lambda x: np.interp(x, good.grid[0], cdf))
    assert found.pvalue < FALSE_ALARM


def test_the_far_end_of_a_stroke_is_found_in_float32():
    """Where the ball rests is rounded: the point mass must be found all the same."""
    golf = jax.tree.map(lambda x: x.astype(jnp.float32), GOLF)
    pairs = jnp.array([(15.1, 1.5), (19.7, 0.7), (3.3, 0.9), (12.0, 2.5), (0.2, 4.9)], jnp.float32)
    for distance, strength in pairs:
        for noise, end in ((5.0, True), (3.0, False), (-5.0, True)):
            pair = distance[None], strength[None]
            rest = golf.step(*pair, jnp.array([noise], jnp.float32))
            mass = scipy.stats.norm.logcdf(-1 / 0.3)
            found = float(golf.log_prob(*pair, rest))
            assert (abs(found - mass) < 1e-3) == end
