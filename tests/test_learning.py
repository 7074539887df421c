"""The default recipe: what it chooses, that it repeats, and that it ends with a better policy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps.envs import Minigolf, pendulum
from gamps.errors import SettingError
from gamps.experiments.awareness import cosines, policy_at, target
from gamps.experiments.golf_setup import logs_of
from gamps.experiments.treatments import seed_keys
from gamps.fitting import ClosedForm, Keep
from gamps.learning import ModelClass, Settings, choose, classes_of, learn, worth
from gamps.models import Ensemble, LinearGaussian, Quadratic, Support, concatenated
from gamps.policies import LinearGaussian as LinearPolicy

KEY = jax.random.key(5)
GOLF = Minigolf()
SMALL = Settings(rounds=2, iterations=40, states=60, actions=8, roll=5, horizon=20, members=3)


def golf_log(n=60, key=KEY):
    return datasets.collect(GOLF, GOLF.policy(), key, n=n, steps=20)


def behaviour():
    made = GOLF.policy()
    return LinearPolicy(made.weights, made.features, log_std=made.log_std, learn_std=False)


def closed(features, size):
    zeros = jnp.zeros((size, 1))
    least = jnp.full(1, 1e-3)
    return ModelClass(
        lambda *_: LinearGaussian(zeros, zeros, features, least, reweighted=True, rectified=True),
        ClosedForm(),
    )


LINEAR = closed(GOLF.model_features, 2)
QUADRATIC = closed(Quadratic(GOLF.model_features), 6)


def mean_return(policy, n=4_000):
    quiet = eqx.tree_at(lambda p: p.log_std, policy, jnp.full_like(policy.log_std, -20.0))
    log = datasets.collect(GOLF, quiet, jax.random.key(99), n=n, steps=20)
    return float(jnp.mean(jnp.sum(0.99 ** jnp.arange(20) * log.rewards, axis=1)))


def test_learns_a_better_policy_and_repeats():
    log = golf_log()
    outcome = learn(KEY, log, GOLF.task(), behaviour(), {"quadratic": QUADRATIC}, settings=SMALL)
    again = learn(KEY, log, GOLF.task(), behaviour(), {"quadratic": QUADRATIC}, settings=SMALL)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, outcome.policy, again.policy))
    # The mean action of the behaviour policy ends near -7.7, the optimum is -3.1.
    assert mean_return(outcome.policy) > -5.5 > mean_return(behaviour()) + 1
    lowers = [r.lower for r in outcome.rounds]
    assert outcome.chosen == int(np.argmax(lowers))
    assert all(r.lower <= r.estimate for r in outcome.rounds)


def test_evidence_finds_the_class_that_can_express_the_game():
    log = golf_log(200)
    order = np.arange(200)
    omega = log.mask.astype(float)
    classes = {"linear": LINEAR, "quadratic": QUADRATIC}
    (name, _), evidence = choose(KEY, omega, log, order, classes, exponents=(0.0,), folds=5)
    assert name == "quadratic"
    assert evidence["quadratic, β = 0"] > evidence["linear, β = 0"] + 0.1


def test_evidence_trusts_omega_only_where_it_must():
    """ω on the far third: the misspecified class needs it, the adequate one does not gain by it."""
    log = golf_log(400)
    omega = jnp.where(log.states[..., 0] > 14, 20.0, 1.0) * log.mask
    parts = dict(exponents=(0.0, 1.0), folds=5)
    (_, beta), _ = choose(KEY, omega, log, np.arange(400), {"linear": LINEAR}, **parts)
    assert beta == 1.0
    _, evidence = choose(KEY, omega, log, np.arange(400), {"quadratic": QUADRATIC}, **parts)
    gain = evidence["quadratic, β = 1"] - evidence["quadratic, β = 0"]
    assert gain < 0.1


def test_a_known_model_is_kept():
    known = ModelClass(lambda *_: GOLF, Keep())
    settings = SMALL._replace(exponents=(0.0,))
    outcome = learn(
        KEY, golf_log(20), GOLF.task(), behaviour(), {"truth": known}, settings=settings
    )
    assert outcome.rounds[0].model_class == "truth"
    assert mean_return(outcome.policy) > -5.5


def test_worth_of_the_true_model_is_the_true_return():
    log = golf_log(4_000)
    members = jax.tree.map(lambda x: jnp.stack([x] * 2) if eqx.is_array(x) else x, GOLF)
    estimate, lower = worth(
        KEY, behaviour(), Ensemble(members, 2, Support.of(log)), GOLF.task(), log
    )
    assert lower <= estimate
    # An episode's return has a deviation of about 14: five standard errors of both means.
    assert estimate == pytest.approx(mean_return(behaviour()), abs=1.5)


def test_network_class_is_fitted_and_small_logs_are_refused():
    log = golf_log(20)
    settings = SMALL._replace(rounds=1, iterations=2, members=2, exponents=(0.0,), folds=2)
    classes = classes_of(GOLF.model_features, rectified=True)
    outcome = learn(KEY, log, GOLF.task(), behaviour(), classes, settings=settings)
    assert set(outcome.rounds[0].evidence) == {"quadratic, β = 0", "network, β = 0"}
    with pytest.raises(SettingError, match="at least five"):
        learn(KEY, golf_log(4), GOLF.task(), behaviour(), classes, settings=settings)


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


def test_two_policies_are_compared_by_the_same_models(monkeypatch):
    """What an optimistic first model says of the first policy does not count for ever."""
    log, short = golf_log(), SMALL._replace(rounds=4, iterations=1, states=10, members=2)
    nan = float("nan")
    # Of each round: the best so far, then its own policy.
    said = iter([10.0, 9.0, -5.0, -3.0, nan, nan, -2.0, -4.0])

    def judgement(*_):
        lower = next(said)
        return lower, lower

    monkeypatch.setattr("gamps.learning.rounds.worth", judgement)
    outcome = learn(KEY, log, GOLF.task(), behaviour(), {"linear": LINEAR}, settings=short)
    assert [r.lower for r in outcome.rounds[:2]] == [9.0, -3.0]
    assert outcome.chosen == 1
    assert jnp.array_equal(outcome.policy.weights, outcome.rounds[1].policy.weights)
    assert not list(said)
