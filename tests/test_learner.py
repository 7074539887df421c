"""The default recipe: what it chooses, that it repeats, and that it ends with a better policy."""

import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.studies.awareness import gridworld
from benchmarks.studies.awareness.minigolf import cosines, policy_at, target
from gamps import datasets
from gamps.envs import Minigolf, pendulum
from gamps.envs.two_areas import two_areas
from gamps.errors import SettingError
from gamps.learner import (
    ModelClass,
    Settings,
    draw_border,
    learn,
    model_classes,
    worth,
)
from gamps.learner.model_classes import ensemble, unfitted
from gamps.models import Ensemble, LinearGaussianModel, LogRange, Model, Quadratic, concatenated
from gamps.paper import setup
from gamps.paper.golf_setup import logs_of
from gamps.paper.treatments import seed_keys
from gamps.policies import LinearGaussianPolicy
from gamps.search.fitting import ClosedForm, EachMember, Keep
from gamps.search.logged_climb import LoggedClimb
from gamps.search.values import advantages
from gamps.tasks import Task

KEY = jax.random.key(5)
GOLF = Minigolf()
SMALL = Settings(iterations=80, states=60, actions=8, roll=5, horizon=20, members=3)
IN_MODELS = SMALL._replace(clip=0.0)  # alone


def golf_log(n=60, key=KEY):
    return datasets.collect(GOLF, GOLF.policy(), key, n=n, steps=20)


def behaviour():
    made = GOLF.policy()
    return LinearGaussianPolicy(made.weights, made.features, log_std=made.log_std, learn_std=False)


def closed(features, size):
    zeros = jnp.zeros((size, 1))
    least = jnp.full(1, 1e-3)
    return ModelClass(
        lambda *_: LinearGaussianModel(
            zeros, zeros, features, least, reweighted=True, rectified=True
        ),
        ClosedForm(),
    )


def test_members_one_by_one_are_those_of_the_part():
    """`EachMember` fits them inside a search; here one after the other, by one program."""
    log, kind = golf_log(), model_classes(GOLF.model_features, rectified=True)["quadratic"]
    weights = log.mask.astype(float)
    ours = ensemble(KEY, log, weights, kind, 3)
    _, key_fit = jax.random.split(KEY)
    part = EachMember(kind.fit)(key_fit, unfitted(KEY, log, kind, 3), log, weights)[0]
    assert ours.size == 3
    np.testing.assert_allclose(ours.members.mean_weights, part.members.mean_weights, rtol=1e-6)
    assert (np.asarray(ours.members.mean_weights).std(axis=0) > 0).all()


LINEAR = closed(GOLF.model_features, 2)
QUADRATIC = closed(Quadratic(GOLF.model_features), 6)


def mean_return(policy, n=4_000):
    quiet = eqx.tree_at(lambda p: p.log_std, policy, jnp.full_like(policy.log_std, -20.0))
    log = datasets.collect(GOLF, quiet, jax.random.key(99), n=n, steps=20)
    return float(jnp.mean(jnp.sum(0.99 ** jnp.arange(20) * log.rewards, axis=1)))


@pytest.fixture
def _short_climb(monkeypatch):
    """On a log of sixty games a longer one leads no further."""
    monkeypatch.setattr(advantages, "UPDATES", 500)
    monkeypatch.setattr(advantages, "REFIT_UPDATES", 100)


@pytest.mark.usefixtures("_short_climb")
def test_learns_a_better_policy_and_repeats():
    log = golf_log()
    outcome, again = (
        learn(log, GOLF.task(), behaviour(), {"quadratic": QUADRATIC}, seed=KEY, settings=SMALL)
        for _ in range(2)
    )
    assert jax.tree.all(jax.tree.map(jnp.array_equal, outcome.policy, again.policy))
    # The mean action of the behaviour policy ends near -7.7, the optimum is -3.1.
    assert mean_return(outcome.policy) > -5.5 > mean_return(behaviour()) + 1
    assert outcome.run.best == SMALL.iterations
    assert outcome.run.promise <= outcome.run.estimate


def test_a_known_model_is_kept():
    known = ModelClass(lambda *_: GOLF, Keep())
    outcome = learn(
        golf_log(20), GOLF.task(), behaviour(), {"truth": known}, seed=KEY, settings=IN_MODELS
    )
    assert outcome.run.model_class == "truth"
    assert mean_return(outcome.policy) > -5.5


def test_of_policies_worth_the_same_the_last_is_handed_out():
    task = Task(lambda *_: jnp.ones(()), 0.99)
    classes = {"quadratic": QUADRATIC}
    outcome = learn(golf_log(20), task, behaviour(), classes, seed=KEY, settings=IN_MODELS)
    assert outcome.run.best == SMALL.iterations


def test_worth_of_the_true_model_is_the_true_return():
    log = golf_log(4_000)
    members = jax.tree.map(lambda x: jnp.stack([x] * 2) if eqx.is_array(x) else x, GOLF)
    estimate = worth(KEY, behaviour(), Ensemble(members, 2, LogRange.of(log)), GOLF.task(), log)
    returns = np.asarray(log.rewards) @ 0.99 ** np.arange(20)
    # Five standard errors of both means.
    assert estimate == pytest.approx(returns.mean(), abs=7 * returns.std() / np.sqrt(4_000))


def test_network_class_is_fitted_and_small_logs_are_refused():
    log = golf_log(20)
    settings = IN_MODELS._replace(iterations=2, members=2)
    classes = model_classes(GOLF.model_features, rectified=True)
    outcome = learn(log, GOLF.task(), behaviour(), classes, seed=KEY, settings=settings)
    assert outcome.run.model_class == "network"
    with pytest.raises(SettingError, match="at least five"):
        learn(golf_log(4), GOLF.task(), behaviour(), classes, seed=KEY, settings=settings)


def test_pendulum_is_known_as_gymnasium_has_it():
    """Reward and termination of a real MuJoCo log, recomputed from the observations."""
    policy = pendulum.policy()
    log = datasets.collect(pendulum.ID, policy, KEY, n=16)
    task = pendulum.task()
    rewards = jax.vmap(jax.vmap(task.reward))(log.states, log.actions, log.next_states)
    assert jnp.array_equal(jnp.where(log.mask, rewards, 0.0), log.rewards)
    ends = jax.vmap(jax.vmap(task.terminal))(log.states, log.actions, log.next_states)
    ended = jnp.any(ends & log.mask, axis=1)
    assert jnp.array_equal(ended, log.terminated)
    assert jnp.array_equal(pendulum.clipped(jnp.zeros(4), jnp.array([9.0])),
                           concatenated(jnp.zeros(4), jnp.array([3.0])))  # fmt: skip


@pytest.mark.full
def test_the_map_of_awareness_knows_the_true_gradient():
    """Cosine one with the game itself, less with a fitted model, and the target's shape."""
    keys = seed_keys(2)
    logs = logs_of(GOLF, keys, std=1.0, n=30)
    goal = target(GOLF)
    assert goal.shape == (6, 1)
    policy = policy_at(GOLF, 0.5, goal)
    known = ModelClass(lambda *_: GOLF, Keep())
    assert np.asarray(cosines(GOLF, logs, keys, policy, known, "ω")) == pytest.approx(np.ones(2))
    fitted = np.asarray(cosines(GOLF, logs, keys, policy, QUADRATIC, "ML"))
    assert ((fitted > 0.5) & (fitted < 0.9999)).all()


@pytest.mark.parametrize(
    ("said", "handed_out"),
    [
        ((-90.0, -60.0), False),  # better in the models, worse than what the log shows
        ((-5.0, -4.0), True),
        ((10.0, 9.0), False),
        ((float("nan"), float("nan")), False),
    ],
)
def test_the_start_is_handed_out_unless_more_is_promised_than_it_earned(
    monkeypatch, said, handed_out
):
    short, each = SMALL._replace(iterations=1, states=10, members=2, clip=0.0), iter(said)
    monkeypatch.setattr("gamps.learner.learner.worth", lambda *_: next(each))
    log = golf_log()
    outcome = learn(log, GOLF.task(), behaviour(), {"linear": LINEAR}, seed=KEY, settings=short)
    shown = float((np.asarray(log.rewards) @ 0.99 ** np.arange(20)).mean())
    assert -50 < shown < -10
    expected = outcome.last if handed_out else behaviour()
    assert jnp.array_equal(outcome.policy.weights, expected.weights)
    assert outcome.run.best == (1 if handed_out else 0)
    best = said[1] - abs(said[0] - shown) if handed_out else shown
    assert outcome.run.best_promise == pytest.approx(best)


@pytest.mark.parametrize(
    ("gain", "error", "said", "handed_out"),
    [
        (8.0, 1.0, (-90.0, -60.0), "logged"),
        (8.0, 1.0, (-30.0, -4.0), "last"),
        (8.0, 5.0, (-90.0, -60.0), "start"),  # half of it may be chance
        (-3.0, 1.0, (-90.0, -60.0), "start"),
        (float("nan"), 1.0, (-90.0, -60.0), "start"),
    ],
)
def test_what_the_log_alone_led_to_is_handed_out_where_models_promise_less(
    monkeypatch, gain, error, said, handed_out
):
    """Half of the gain, less an error, on top of what the log shows."""
    made, each = behaviour(), iter(said)
    climbed = eqx.tree_at(lambda p: p.weights, made, made.weights + 1.0)
    monkeypatch.setattr("gamps.learner.learner.worth", lambda *_: next(each))
    monkeypatch.setattr(
        "gamps.learner.learner.climb_on_log", lambda *_, **__: LoggedClimb(climbed, gain, error)
    )
    short, log = SMALL._replace(iterations=1, states=10, members=2), golf_log()
    outcome = learn(log, GOLF.task(), made, {"linear": LINEAR}, seed=KEY, settings=short)
    shown = float((np.asarray(log.rewards) @ 0.99 ** np.arange(20)).mean())
    expected = {"logged": climbed, "last": outcome.last, "start": made}[handed_out]
    np.testing.assert_array_equal(outcome.policy.weights, expected.weights)
    if handed_out == "start":
        assert outcome.run.logged is None
    else:
        assert outcome.run.logged == pytest.approx(shown + gain / 2 - error)
        narrow = made.log_std + np.log(short.least_std)
        if handed_out == "logged":
            np.testing.assert_allclose(outcome.policy.log_std, narrow, rtol=1e-6)
    # What is not believed is not where the models begin, either; one step of theirs is short.
    began = made if outcome.run.logged is None else climbed
    assert float(jnp.max(jnp.abs(outcome.last.weights - began.weights))) < 0.3


class Drifting(Model):
    """Moves by a normal step, whatever is done."""

    size: jax.Array

    @property
    def noise_size(self):
        return 1

    def step(self, observation, action, noise):
        return observation + self.size * noise

    def log_prob(self, observation, action, next_observation):
        raise NotImplementedError


@pytest.mark.parametrize("seldom", [0.02, 0.3])
def test_the_border_is_as_near_as_the_logging_policy_allows(seldom):
    """Its own trajectories end there as seldom as asked for, by a simulation of its own."""
    log = golf_log(200)
    support = LogRange.of(log)
    drifting = Ensemble(Drifting(jnp.full((1, 1), 3.0)), 1, support)
    never = Task(lambda *_: jnp.zeros(()), 0.99)
    parts = dict(steps=20, seldom=seldom)
    border = draw_border(KEY, behaviour(), drifting, never, log, **parts)
    generator = np.random.default_rng(0)
    low, high = float(support.low[0]), float(support.high[0])
    states = generator.choice(np.asarray(log.states)[np.asarray(log.mask)][:, 0], 4_000)
    hazard = np.zeros(4_000)
    for _ in range(20):
        free = states + 3.0 * generator.normal(size=4_000)
        states = np.clip(free, low, high)
        hazard += (np.abs(free - states) / (high - low) / float(border.width)) ** 2
    ended = 1 - np.exp(-hazard).mean()
    # The next width is a fifth narrower; five standard errors of 500 trajectories.
    error = 5 * np.sqrt(seldom / 500)
    assert seldom / 2 - error < ended <= seldom + error
    mask, rewards = np.asarray(log.mask), np.asarray(log.rewards)
    left = [
        row[t:n] @ 0.99 ** np.arange(n - t)
        for row, n in zip(rewards, mask.sum(axis=1), strict=True)
        for t in range(n)
    ]
    assert float(border.value) == pytest.approx(min(left))
    still = Ensemble(Drifting(jnp.zeros((1, 1))), 1, support)
    assert draw_border(KEY, behaviour(), still, never, log, **parts).width < border.width / 10


@pytest.mark.full
def test_the_map_of_the_gridworld_is_exact():
    """A cosine of one where the model is the truth; ω helps the class that cannot be it."""
    env, keys = two_areas("A"), seed_keys(3)
    grouped = gridworld.model_of(env, "cells")
    known = gridworld.Grouped(
        jnp.log(jnp.maximum(env.effects, 1e-30)), grouped.groups, grouped.successors
    )
    others = np.arange(len(env.forced)) != env.layout.goal
    np.testing.assert_allclose(
        np.asarray(known.transitions())[others],
        np.asarray(env.mdp().transitions)[others],
        atol=1e-6,
    )
    logs, goal = setup.logs_of(env, keys, 100), gridworld.target(env)
    for kind in ("effects", "areas"):
        likely, aware = (
            np.asarray(gridworld.cosines(env, logs, goal, kind, weights)) for weights in ("ML", "ω")
        )
        assert likely.shape == (3, 3)
        assert aware.min() > 0.99
        assert (likely[0] < 0.9).all() if kind == "effects" else likely.min() > 0.99


def test_one_group_is_the_model_of_the_paper():
    env = two_areas("A")
    _, log = setup.log_of(env, KEY, 20)
    rows = np.asarray(log.mask)
    parts = [jnp.asarray(x)[rows] for x in (log.states, log.actions, log.next_states)]
    weights = jax.random.uniform(KEY, (int(rows.sum()),))
    one, paper = gridworld.model_of(env, "effects"), env.effect_model()
    found = one.statistics(*parts, weights)
    np.testing.assert_allclose(found[0], paper.statistics(*parts, weights), rtol=1e-5)
    ours, theirs = one.from_statistics(found), paper.from_statistics(found[0])
    np.testing.assert_allclose(ours.transitions(), theirs.transitions(), rtol=1e-5)
    each = jax.vmap(ours.log_prob)(*parts), jax.vmap(theirs.log_prob)(*parts)
    np.testing.assert_allclose(*each, rtol=1e-5)


@pytest.mark.full
def test_the_map_of_swimmer_knows_the_true_gradient():
    pytest.importorskip("mujoco")
    swimmer = importlib.import_module("benchmarks.studies.awareness.swimmer")
    log = datasets.collect(swimmer.swimmer.ID, swimmer.swimmer.policy(), KEY, n=4, steps=50)
    policy = swimmer.policy_at(0.5, 0.1 * np.ones((9, 2)))
    true = swimmer._true(KEY, policy, log)
    known = ModelClass(lambda *_: swimmer.Simulated(swimmer.swimmer.ID, jnp.zeros(())), Keep())
    ours = swimmer._ours(KEY, policy, log, known, "ω")
    assert float(swimmer.cosine(ours, true)) > 0.9  # but for what leaves the range of the log
    linear = swimmer._ours(KEY, policy, log, swimmer.classes()["linear"], "ML")
    assert float(swimmer.cosine(linear, true)) < 0.99
