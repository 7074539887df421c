"""MuJoCo as a model: it moves as the environments do."""

import jax
import numpy as np
import pytest

from gamps import datasets
from gamps.envs import pendulum, swimmer
from gamps.models import Ensemble

pytest.importorskip("mujoco")


@pytest.mark.parametrize("problem", [swimmer, pendulum], ids=["swimmer", "pendulum"])
def test_a_simulator_repeats_a_log(problem):
    from benchmarks.studies.simulated import Simulated

    log = datasets.collect(problem.ID, problem.policy(), jax.random.key(0), n=3, steps=40)
    models = [Simulated(problem.ID, jax.numpy.asarray(float(i))) for i in range(2)]
    members = jax.tree.map(lambda *x: jax.numpy.stack(x), *models)
    rows = np.asarray(log.mask)
    states, actions, following = (
        np.asarray(x)[rows] for x in (log.states, log.actions, log.next_states)
    )
    for model in (models[0], Ensemble(members, 2)):
        move = jax.jit(jax.vmap(lambda s, a, model=model: model.sample(jax.random.key(1), s, a)))
        # Observations are kept in single precision, and the engine's warm start is not.
        np.testing.assert_allclose(move(states, actions), following, rtol=1e-4, atol=1e-4)
    assert np.abs(following - states).max() > 0.1
