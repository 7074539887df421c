"""One battery for all environments, and the gridworld's own facts."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from gymnasium.utils.env_checker import check_env

import gamps.envs
from gamps.envs import Minigolf, collect
from gamps.envs.two_areas import DOWN, LEFT, RIGHT, STAY, UP, two_areas
from gamps.errors import SettingError
from gamps.exact import tabular
from gamps.paper.setup import best_return, log_of, policy_table
from gamps.policies import Policy

LAYOUTS = list(gamps.envs.LAYOUTS)
FALSE_ALARM = 1e-6


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gymnasium_accepts_it(layout):
    env = gymnasium.make("gamps/TwoAreas-v0", layout=layout)
    check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    steps = 0
    terminated = truncated = False
    while not (terminated or truncated):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert reward == -1.0
        steps += 1
    assert truncated or observation[0] == 0
    assert steps <= two_areas(layout).layout.horizon


@pytest.mark.parametrize("layout", LAYOUTS)
def test_thousands_of_episodes_follow_the_true_transitions(layout):
    env = two_areas(layout)
    _, log = jax.jit(lambda key: log_of(env, key, 4000)[1:] * 2)(jax.random.key(0))
    mask = np.asarray(log.mask)
    states, actions = np.asarray(log.states)[mask][:, 0], np.asarray(log.actions)[mask]
    following = np.asarray(log.next_states)[mask]
    counts = np.zeros((25, 4, 5))
    np.add.at(counts, (states, actions, following[:, 1]), 1)
    for cell, action in np.argwhere(counts.sum(-1) > 100):
        expected = env.effects[cell, action] * counts[cell, action].sum()
        assert not counts[cell, action][expected == 0].any()
        if (possible := expected > 0).sum() > 1:
            found = scipy.stats.chisquare(counts[cell, action][possible], expected[possible])
            assert found.pvalue > FALSE_ALARM
    np.testing.assert_array_equal(env.successors[states, following[:, 1]], following[:, 0])
    assert not (states == env.layout.goal).any()
    starts = np.asarray(log.observations[:, 0, 0])
    assert set(starts) == set(env.layout.starts)
    ended = np.asarray(log.observations[:, -1, 0]) == env.layout.goal
    np.testing.assert_array_equal(ended, log.terminated)


@pytest.mark.parametrize(("layout", "optimum"), [("B", -6.12), ("A", -6.51), ("plain", -4.06)])
def test_optimum(layout, optimum):
    assert best_return(two_areas(layout)) == pytest.approx(optimum, abs=0.005)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_way_back_and_walls(layout):
    env = two_areas(layout)
    lower = env.layout.lower
    assert not lower[env.successors[~lower]].any()
    assert env.successors[24, DOWN] == 24
    assert env.successors[24, RIGHT] == 24
    assert (env.successors[:, STAY] == np.arange(25)).all()


def test_layouts_by_hand():
    b, a, plain = (two_areas(name) for name in ("B", "A", "plain"))
    assert b.successors[1, RIGHT] == 0  # the 2×2 torus
    assert b.successors[5, DOWN] == 0
    assert b.successors[2, LEFT] == 1  # open border
    assert a.successors[12, UP] == 12  # a wall, but for column 0
    assert a.successors[10, UP] == 5
    assert a.successors[0, UP] == 0  # the goal absorbs
    assert a.successors[1, UP] == 1  # the torus of the grid would enter S1
    assert a.successors[9, RIGHT] == 5
    assert plain.successors[12, UP] == 7
    assert plain.successors[1, UP] == 6  # the torus of the area
    assert len(plain.layout.starts) == len(b.layout.starts) == 9
    assert len(a.layout.starts) == 7


def test_behaviour_is_deterministic_below():
    env = two_areas("B")
    policy = env.behaviour(jax.random.key(0))
    pi = np.asarray(policy_table(env, policy))
    lower = env.layout.lower
    assert set(pi[lower].ravel()) == {0.0, 1.0}
    assert pi[24, 3] == 1  # up is action 3 in S1
    assert pi[4, 2] == 1  # left, under the wall
    free = ~lower & (np.arange(25) != 0)
    assert (pi[free] < 0.4).all()
    np.testing.assert_allclose(pi.sum(1), 1.0)


def test_return_of_the_log_is_the_exact_return():
    env = two_areas("B")
    policy, log = jax.jit(lambda key: log_of(env, key, 20_000))(jax.random.key(1))
    discounts = env.layout.discount ** jnp.arange(env.layout.horizon)
    returns = np.asarray(jnp.sum(log.rewards * discounts, axis=1))
    exact = tabular.expected_return(
        env.mdp(), policy_table(env, policy), horizon=env.layout.horizon
    )
    z = (returns.mean() - float(exact)) / (returns.std() / np.sqrt(len(returns)))
    assert abs(z) < scipy.stats.norm.isf(FALSE_ALARM / 2)


def test_unknown_layout():
    with pytest.raises(SettingError, match="layout"):
        two_areas("C")


GOLF = Minigolf()


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized")
def test_gymnasium_accepts_minigolf():
    env = gymnasium.make("gamps/Minigolf-v0", noise=0.1)
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=0)
    rewards, over = [], False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(np.array([0.7], np.float32))
        rewards.append(reward)
        over = terminated or truncated
    assert set(rewards) <= {-1.0, 0.0, -100.0}
    assert len(rewards) <= 20
    assert terminated == (observation[0] <= 0)


def test_minigolf_constants_are_the_physics():
    """The hole takes a ball no faster than v_max, which bounds where it would come to rest."""
    state = jnp.array([3.0, 15.0])
    np.testing.assert_allclose(GOLF.deceleration(state), 5 / 7 * 9.81 * np.array([0.131, 0.19]))
    brake = 2 * np.asarray(GOLF.deceleration(state))
    fastest = np.sqrt((0.2 - 0.02135) ** 2 * 9.81 / (2 * 0.02135) + brake * np.asarray(state))
    np.testing.assert_allclose(GOLF.edge(state), np.asarray(state) - fastest**2 / brake)
    for rest, reward in ((0.1, -1.0), (0.0, 0.0), (-1.0, 0.0), (-10.0, -100.0)):
        found = GOLF.reward(jnp.array([3.0]), jnp.array([1.0]), jnp.array([rest]))
        assert float(found) == reward
        ends = GOLF.ends(jnp.array([3.0]), jnp.array([1.0]), jnp.array([rest]))
        assert bool(ends) == (rest <= 0)


def test_minigolf_log_is_its_own_model():
    """Real and imagined transitions have one reward and one end; the log's density is finite."""
    log = jax.jit(lambda k: collect(GOLF, GOLF.policy(), k, n=500, steps=20))(jax.random.key(0))
    mask = np.asarray(log.mask)
    task = GOLF.task()
    transition = (log.states, log.actions, log.next_states)
    rewards = jax.vmap(jax.vmap(task.reward))(*transition)
    np.testing.assert_allclose(np.asarray(rewards)[mask], np.asarray(log.rewards)[mask])
    ends = np.asarray(jax.vmap(jax.vmap(task.terminal))(*transition)) & mask
    np.testing.assert_array_equal(ends.any(axis=1), log.terminated)
    density = np.asarray(jax.vmap(jax.vmap(GOLF.log_prob))(*transition))[mask]
    assert np.isfinite(density).all()


class Lookup(Policy):
    """Plays the solution's action at the ball's distance."""

    actions: jax.Array
    noise_size = 1

    def act(self, observation, noise):
        middles = (jnp.arange(len(self.actions)) + 0.5) * 20 / len(self.actions)
        return jnp.interp(observation, middles, self.actions)

    def log_prob(self, observation, action):
        return jnp.zeros(())


def test_minigolf_optimum_is_what_its_own_policy_earns():
    v, actions = jax.jit(lambda e: e.solution(cells=200, actions=200))(GOLF)
    log = jax.jit(lambda k: collect(GOLF, Lookup(actions), k, n=400_000, steps=20))(
        jax.random.key(1)
    )
    returns = np.asarray((log.rewards * 0.99 ** jnp.arange(20)).sum(axis=1))
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - float(v.mean())) < 4.9 * error + 0.03  # what 10 cm cells are worth
