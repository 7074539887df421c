import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamps import Episode, from_episodes
from gamps.errors import TrajectoryError
from gamps.trajectories import first_steps, in_pieces, real_steps, validate


def episode(steps: int, *, width: int = 2, seed: int = 0) -> Episode:
    rng = np.random.default_rng(seed)
    return Episode(
        rng.normal(size=(steps + 1, width)),
        rng.normal(size=(steps, 1)),
        rng.normal(size=steps),
        rng.normal(size=steps),
        bool(rng.integers(2)),
    )


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 4))
def test_padding_keeps_every_real_step(lengths, extra):
    episodes = [episode(steps, seed=i) for i, steps in enumerate(lengths)]
    log = from_episodes(episodes, length=max(lengths) + extra)
    assert log.mask.shape == (len(lengths), max(lengths) + extra)
    assert log.lengths.tolist() == lengths
    for i, (row, steps) in enumerate(zip(episodes, lengths, strict=True)):
        np.testing.assert_array_equal(log.observations[i, : steps + 1], row.observations)
        np.testing.assert_array_equal(log.actions[i, :steps], row.actions)
        np.testing.assert_array_equal(log.rewards[i, :steps], row.rewards)
        np.testing.assert_array_equal(log.behaviour_log_prob[i, :steps], row.behaviour_log_prob)
        assert not log.rewards[i, steps:].any()
        assert (np.asarray(log.observations[i, steps:]) == row.observations[-1]).all()
        assert bool(log.terminated[i]) == row.terminated
    np.testing.assert_array_equal(log.states[:, 1:], log.next_states[:, :-1])


def broken(**fields):
    good = [episode(4, seed=1), episode(3, seed=2)]
    return [good[0], good[1]._replace(**fields)]


@pytest.mark.parametrize(
    ("episodes", "field", "index"),
    [
        ([], "episodes", None),
        (broken(observations=np.zeros((3, 2))), "observations", (1,)),
        (broken(observations=np.zeros((4, 5))), "observations", (1,)),
        (broken(actions=np.zeros((2, 1))), "actions", (1,)),
        (broken(actions=np.zeros((3, 2))), "actions", (1,)),
        (broken(rewards=np.zeros(0)), "rewards", (1,)),
        (broken(rewards=0.0), "rewards", (1,)),
        (broken(rewards=np.zeros((3, 1))), "rewards", (1,)),
        (broken(rewards=["a", "b", "c"]), "rewards", (1,)),
        (broken(behaviour_log_prob=np.zeros(2)), "behaviour_log_prob", (1,)),
        (broken(behaviour_log_prob=[0.0, -np.inf, 0.0]), "behaviour_log_prob", (1, 1)),
        (broken(behaviour_log_prob=[0.0, 0.0, np.nan]), "behaviour_log_prob", (1, 2)),
        (broken(rewards=[0.0, np.inf, 0.0]), "rewards", (1, 1)),
        (broken(actions=[[0.0], [np.nan], [0.0]]), "actions", (1, 1, 0)),
        (broken(observations=[[0, 0], [0, 0], [0, 0], [0, np.nan]]), "observations", (1, 3, 1)),
    ],
)
def test_errors_name_field_and_place(episodes, field, index):
    with pytest.raises(TrajectoryError) as caught:
        from_episodes(episodes)
    assert caught.value.field == field
    assert caught.value.index == index
    assert caught.value.fix
    assert field in str(caught.value)


def test_length_too_short():
    with pytest.raises(TrajectoryError, match="length"):
        from_episodes([episode(4)], length=3)


def test_validate_refuses_a_mask_with_holes_and_wrong_shapes():
    log = from_episodes([episode(4), episode(3)])
    for mask, message in (
        (log.mask.at[1, 0].set(False), "False before True"),
        (log.mask.at[1].set(False), "without steps"),
        (log.mask[:, :3], "shape"),
    ):
        with pytest.raises(TrajectoryError, match=message):
            validate(eqx.tree_at(lambda t: t.mask, log, mask))


def test_padding_may_hold_anything():
    log = from_episodes([episode(4), episode(3)])
    spoilt = eqx.tree_at(lambda t: t.rewards, log, log.rewards.at[1, 3].set(jnp.nan))
    assert validate(spoilt) is spoilt


def test_pieces_hold_every_step_once():
    """Of a ragged log: as many real steps, in the same order, each with what followed it."""
    rng = np.random.default_rng(0)
    episodes = []
    for steps in (3, 25, 8, 10):
        observations = rng.normal(size=(steps + 1, 2)).astype(np.float32)
        log_prob = rng.normal(size=steps).astype(np.float32)
        actions = rng.normal(size=(steps, 1)).astype(np.float32)
        episodes.append(Episode(observations, actions, actions[:, 0], log_prob, steps == 25))
    log = from_episodes(episodes)
    cut = validate(in_pieces(log, 10))
    assert sorted(np.asarray(cut.lengths).tolist()) == [3, 5, 8, 10, 10, 10]
    assert int(cut.terminated.sum()) == 1
    assert int(cut.lengths[np.flatnonzero(cut.terminated)[0]]) == 5

    def steps_of(log):
        mask = np.asarray(log.mask)
        parts = (log.states, log.actions, log.next_states, log.behaviour_log_prob[..., None])
        rows = np.concatenate([np.asarray(x)[mask] for x in parts], axis=1)
        return rows[np.lexsort(rows.T)]

    np.testing.assert_array_equal(steps_of(cut), steps_of(log))
    first = validate(first_steps(log, 10))
    assert np.asarray(first.lengths).tolist() == [3, 10, 8, 10]
    assert not first.terminated.any()
    assert in_pieces(log, 25) is log
    assert np.asarray(real_steps(log))[: int(log.mask.sum())].tolist() == list(
        np.flatnonzero(np.asarray(log.mask))
    )
