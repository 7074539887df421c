"""The robots' controllers are what was trained, and what is known of a robot is what it does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from benchmarks.robots.known import HERE, NOISES, ROBOTS, controller, made
from gamps import datasets
from gamps.policies import describe, rebuild

pytest.importorskip("mujoco")


@pytest.mark.parametrize("name", ROBOTS)
def test_a_controller_acts_as_its_actor_does(name):
    arrays = load_file(HERE / f"{ROBOTS[name].env}.safetensors")
    observation = np.random.default_rng(0).normal(size=arrays["0.weight"].shape[1])
    x = observation
    for i in range(len(arrays) // 2):
        x = np.tanh(arrays[f"{i}.weight"] @ x + arrays[f"{i}.bias"])
    policy = controller(name, "large")
    np.testing.assert_allclose(policy.mean(jnp.asarray(observation)), x, atol=1e-5)
    np.testing.assert_allclose(np.exp(policy.log_std), NOISES["large"], rtol=1e-6)
    again = rebuild(describe(policy))
    np.testing.assert_allclose(again.mean(jnp.asarray(observation)), x, atol=1e-5)
    assert 1 / 3 <= made(name)["share"] <= 1 / 2


@pytest.mark.parametrize("name", ROBOTS)
def test_what_is_known_of_a_robot_is_what_it_does(name):
    at = ROBOTS[name]
    log = datasets.collect(at.env, controller(name), jax.random.key(0), n=3, steps=at.horizon)
    mask = np.asarray(log.mask)
    parts = (log.states, log.actions, log.next_states)
    known = (at.task.reward, at.task.terminal)
    rewards, ends = (np.asarray(jax.vmap(jax.vmap(one))(*parts)) for one in known)
    logged = np.asarray(log.rewards)
    # A velocity over a step stands for (x' - x) / dt, up to what happens within the step.
    apart = np.abs((rewards - logged)[mask].mean())
    assert apart < 0.02 * logged[mask].std()
    last = np.asarray(log.lengths) - 1
    assert (ends[np.arange(3), last] == np.asarray(log.terminated)).all()
    assert (ends & mask).sum() == np.asarray(log.terminated).sum()
