"""The logging policy estimated: the truth is found, calibration says how well, gaps are named."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.envs import TwoTanks, collect, tanks
from gamps.envs.two_areas import two_areas
from gamps.errors import DatasetError, SettingError
from gamps.policies import SoftClipped, estimation
from gamps.trajectories import Episode, from_episodes

KEY = jax.random.key(3)


def episodes_of(log):
    fields = (log.observations, log.actions, log.rewards)
    return [Episode(*(np.asarray(f[i]) for f in fields), None) for i in range(log.n_trajectories)]


@pytest.mark.full
def test_a_linear_controller_is_found_again():
    log = collect(TwoTanks(), tanks.policy(), KEY, n=80, steps=30)
    found = estimation.estimate(KEY, episodes_of(log))
    assert found.kind == "affine"
    # 2,400 draws of deviation .2: standard errors near .004 and below .05 for the gains.
    assert np.asarray(jnp.exp(found.policy.log_std)) == pytest.approx(0.2, abs=0.02)
    assert np.asarray(found.policy.weights)[:, 0] == pytest.approx(tanks.GAINS, abs=0.2)
    assert np.abs(found.trajectories.behaviour_log_prob - log.behaviour_log_prob).max() < 0.5
    for name, share in found.calibration.items():
        assert share == pytest.approx(float(name.rstrip("%")) / 100, abs=0.05)


@pytest.mark.full
def test_a_curved_controller_needs_the_network():
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(30):
        seen = rng.uniform(-2, 2, (21, 1))
        acted = np.sin(3 * seen[:-1]) + 0.1 * rng.standard_normal((20, 1))
        episodes.append(Episode(seen, acted, np.zeros(20), None))
    found = estimation.estimate(KEY, episodes)
    assert found.kind == "network"
    assert found.held_out["network"] > found.held_out["affine"] + 0.5


def test_choices_are_estimated_too():
    env = two_areas("plain")
    policy = env.behaviour(KEY)
    log = collect(env, policy, KEY, n=60, steps=10)
    found = estimation.estimate(KEY, episodes_of(log))
    assert found.kind == "choices"
    assert found.calibration["taken"] == pytest.approx(found.calibration["expected"], abs=0.05)
    assert np.isfinite(np.asarray(found.trajectories.behaviour_log_prob)).all()


def test_missing_densities_are_named_until_they_are_estimated(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    log = collect(TwoTanks(), tanks.policy(), KEY, n=10, steps=5)
    with pytest.raises(ValueError, match=r"behaviour_log_prob\[0\]: missing"):
        from_episodes(episodes_of(log))
    days, who = tuple(f"day {i // 2}" for i in range(10)), ("old",) * 5 + ("new",) * 5
    labels = datasets.Labels(controllers=who, groups=days, newest="new")
    limits = (np.zeros(1), np.ones(1))
    datasets.save(
        "tanks/raw-v0", log, None, discount=0.9, densities="missing", labels=labels, limits=limits
    )
    with pytest.raises(DatasetError, match="gamps fit-behaviour tanks/raw-v0"):
        datasets.load("tanks/raw-v0")
    *_, discount, kind, _ = datasets.load_episodes("tanks/raw-v0")
    assert (discount, kind) == (0.9, "missing")
    main(["fit-behaviour", "tanks/raw-v0", "--dataset", "tanks/day-v0"])
    data = datasets.load("tanks/day-v0")
    assert data.densities == "estimated"
    # The fit does not tell controllers apart, so nothing may be judged by one of them.
    assert data.labels == datasets.Labels(groups=days)
    np.testing.assert_array_equal(data.limits, limits)


def test_settings_are_named():
    log = collect(TwoTanks(), tanks.policy(), KEY, n=4, steps=5)
    with pytest.raises(SettingError, match="at least 5"):
        estimation.estimate(KEY, episodes_of(log))
    with pytest.raises(SettingError, match="affine, network, choices"):
        estimation.fit(KEY, log, "cubic")
    with pytest.raises(SettingError, match="affine or network"):
        estimation.fit(KEY, log, "choices")


def test_a_linear_controller_is_recognised_by_its_densities():
    """Exactly, from densities of single precision; a bent one is not taken for it."""
    behaviour = tanks.policy()
    log = collect(TwoTanks(), behaviour, jax.random.key(4), n=20, steps=20)
    single = dataclasses.replace(
        log, behaviour_log_prob=jnp.asarray(log.behaviour_log_prob, jnp.float32)
    )
    fitted = estimation.fit(jax.random.key(0), single, "affine")
    assert np.abs(np.asarray(fitted.weights - behaviour.weights)).max() > 1e-3
    found = estimation.recognised(fitted, single)
    np.testing.assert_allclose(found.weights, behaviour.weights, atol=1e-4)
    np.testing.assert_allclose(found.log_std, behaviour.log_std, atol=1e-4)
    other = SoftClipped.of(behaviour, 0.2, 0.4)
    log = collect(TwoTanks(), other, jax.random.key(4), n=20, steps=20)
    fitted = estimation.fit(jax.random.key(0), log, "affine")
    assert estimation.recognised(fitted, log) is fitted
