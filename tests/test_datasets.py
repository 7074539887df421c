"""Logs on disk: real MuJoCo, real Minari files, and what damage does to them."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import warnings

import gymnasium
import h5py
import jax
import jax.numpy as jnp
import minari
import numpy as np
import pytest

from gamps import datasets
from gamps.cli import main
from gamps.datasets.metadata import limits_of
from gamps.datasets.writing import HASHES, write_hashes
from gamps.envs import Minigolf, swimmer, tanks
from gamps.envs.two_areas import two_areas
from gamps.errors import DatasetError, OutputError, SettingError
from gamps.policies import (
    Boltzmann,
    LinearGaussianPolicy,
    MLPGaussianPolicy,
    OneHot,
    SoftClipped,
    describe,
    log_probs,
    rebuild,
)
from gamps.runs.resolve import features_of
from gamps.trajectories import Episode, from_episodes

NAME = "swimmer/random-v0"
KEY = f"infos/{datasets.LOG_PROB}"


def equal(one, other) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def swimmer_log():
    return datasets.collect(swimmer.ID, swimmer.policy(), jax.random.key(3), n=5, steps=30)


@pytest.fixture(scope="module")
def written(tmp_path_factory, swimmer_log):
    """A sound dataset, to be copied and damaged."""
    root = tmp_path_factory.mktemp("minari")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        return datasets.save(
            NAME, swimmer_log, swimmer.policy(), env=swimmer.ID, steps=30, discount=swimmer.DISCOUNT
        )


def test_a_swimmer_log_comes_back_bit_equal(written, swimmer_log, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(written.parent.parent))
    loaded = datasets.load(NAME)
    assert equal(loaded.trajectories, swimmer_log)
    assert loaded.discount == swimmer.DISCOUNT
    assert (loaded.env_spec.id, loaded.env_spec.max_episode_steps) == (swimmer.ID, 30)
    assert equal(loaded.behaviour, swimmer.policy())
    again = log_probs(loaded.behaviour, loaded.trajectories)
    np.testing.assert_allclose(again, swimmer_log.behaviour_log_prob, atol=1e-5, rtol=0)


def test_minari_opens_it_and_aligns_infos(written, swimmer_log, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(written.parent.parent))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened = minari.load_dataset(NAME)
        assert NAME in minari.list_local_datasets()
    assert (opened.total_episodes, opened.total_steps) == (5, 150)
    for i, episode in enumerate(opened.iterate_episodes()):
        np.testing.assert_array_equal(episode.actions, swimmer_log.actions[i])
        log_prob = episode.infos[datasets.LOG_PROB]
        assert log_prob.shape == (31, 1)
        assert np.isnan(log_prob[0, 0])
        np.testing.assert_array_equal(log_prob[1:, 0], swimmer_log.behaviour_log_prob[i])
        assert episode.truncations.tolist() == [False] * 29 + [True]


def test_the_log_is_what_the_simulator_does(swimmer_log):
    env = gymnasium.make(swimmer.ID).unwrapped
    for i in range(2):
        first = np.asarray(swimmer_log.observations[i, 0])
        env.reset(seed=0)
        env.set_state(np.concatenate([np.zeros(2), first[:3]]), first[3:])
        for t in range(30):
            observation, reward, *_ = env.step(np.asarray(swimmer_log.actions[i, t]))
            np.testing.assert_allclose(observation, swimmer_log.observations[i, t + 1], atol=1e-9)
            np.testing.assert_allclose(reward, swimmer_log.rewards[i, t], atol=1e-9)


def test_the_known_reward_explains_the_simulators():
    log = datasets.collect(swimmer.ID, swimmer.policy(), jax.random.key(0), n=16, steps=200)
    known = jax.vmap(jax.vmap(swimmer.reward))(log.states, log.actions, log.next_states)
    assert 1 - jnp.var(known - log.rewards) / jnp.var(log.rewards) > 0.997
    last = log.next_states[..., swimmer.FORWARD]
    assert (
        1 - jnp.var(last - log.rewards) / jnp.var(log.rewards) < 0.97
    )  # one velocity is not enough


def test_densities_are_of_the_raw_action(swimmer_log):
    assert jnp.abs(swimmer_log.actions).max() > 1  # beyond what the actuators let through
    expected = log_probs(swimmer.policy(), swimmer_log)
    np.testing.assert_allclose(swimmer_log.behaviour_log_prob, expected, atol=1e-10)


@pytest.mark.slow
def test_workers_do_not_change_the_log():
    one, two = (
        datasets.collect(
            swimmer.ID, swimmer.policy(), jax.random.key(7), n=20, steps=15, workers=workers
        )
        for workers in (1, 2)
    )
    assert equal(one, two)


def test_episodes_do_not_depend_on_how_many_are_asked_for():
    few, many = (
        datasets.collect(swimmer.ID, swimmer.policy(), jax.random.key(7), n=n, steps=15)
        for n in (3, 18)
    )
    assert equal(few, jax.tree.map(lambda x: x[:3], many))


@pytest.mark.parametrize(
    "problem",
    ["minigolf", "two_areas"],
)
def test_functional_environments_and_episodes_of_different_lengths(problem, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    if problem == "minigolf":
        env = Minigolf()
        policy, steps = env.policy(), 20
    else:
        env = two_areas("A")
        policy, steps = env.behaviour(jax.random.key(0)), 10
    log = datasets.collect(env, policy, jax.random.key(1), n=12, steps=steps)
    assert len(set(log.lengths.tolist())) > 1
    datasets.save("own/log-v0", log, policy, discount=0.99)
    loaded = datasets.load("own/log-v0")
    longest = int(log.lengths.max())
    cut = {"observations": log.observations[:, : longest + 1]} | {
        name: getattr(log, name)[:, :longest]
        for name in ("actions", "rewards", "behaviour_log_prob", "mask")
    }
    found = loaded.trajectories
    for name in ("observations", "rewards", "behaviour_log_prob", "mask"):
        assert np.array_equal(getattr(found, name), cut[name]), name
    assert np.array_equal(found.terminated, log.terminated)
    used = np.asarray(cut["mask"])
    assert np.array_equal(np.asarray(found.actions)[used], np.asarray(cut["actions"])[used])


def test_our_environments_through_gymnasium():
    log = datasets.collect(
        "gamps/Minigolf-v0", Minigolf().policy(), jax.random.key(0), n=3, steps=20
    )
    assert log.lengths.max() <= 20
    assert bool(log.terminated[log.lengths < 20].all())


# Damage: what is done to a copy, and what the error must name.


def _h5(change):
    def damage(folder):
        with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
            change(file)

    return damage


def _replace(episode, field, change):
    def damage(file):
        group = file[f"episode_{episode}"]
        values = change(group[field][()])
        del group[field]
        group[field] = values

    return _h5(damage)


def _set(episode, field, place, value):
    def change(values):
        values[place] = value
        return values

    return _replace(episode, field, change)


def _metadata(**changes):
    def damage(folder):
        path = folder / "data" / "metadata.json"
        content = json.loads(path.read_text())
        for key, value in changes.items():
            if value is None:
                del content[key]
            else:
                content[key] = value(content[key])
        path.write_text(json.dumps(content))

    return damage


def _cut_file(folder):
    path = folder / "data" / "main_data.hdf5"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _flip(folder):
    path = folder / "data" / "main_data.hdf5"
    with h5py.File(path) as file:
        offset = file["episode_2/observations"].id.get_offset() or 0
        if not offset:
            chunk = file["episode_2/observations"].id.get_chunk_info(0)
            offset = chunk.byte_offset
    content = bytearray(path.read_bytes())
    content[offset] ^= 1  # the least bit of the first number: finite, plausible, wrong
    path.write_bytes(bytes(content))


def _shift_later(values):
    return np.concatenate([values[:1], values[:-1]])


def _description(change):
    def edit(text):
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return _metadata(gamps_behaviour=edit)


def _clip_one(folder):
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        actions = file["episode_1/actions"]
        place = tuple(np.argwhere(np.abs(actions[()]) > 1)[0])
        actions[place] = np.sign(actions[place])


def _clip_all_and_their_densities(folder):
    with h5py.File(folder / "data" / "main_data.hdf5", "r+") as file:
        for episode in file.values():
            actions = np.clip(episode["actions"][()], -0.3, 0.3)
            episode["actions"][...] = actions
            states = episode["observations"][:-1]
            densities = jax.vmap(swimmer.policy().log_prob)(jnp.asarray(states), actions)
            episode[KEY][1:, 0] = np.asarray(densities)


def _empty(folder):
    for field in ("rewards", "actions", "terminations", "truncations"):
        _replace(1, field, lambda x: x[:0])(folder)
    for field in ("observations", KEY):
        _replace(1, field, lambda x: x[:1])(folder)
    _metadata(total_steps=lambda n: n - 30)(folder)


DAMAGE = {
    "truncated infos": (_replace(1, KEY, lambda x: x[:-1]), KEY, (1,)),
    "infos one too long": (_replace(1, KEY, lambda x: np.concatenate([x, x[-1:]])), KEY, (1,)),
    "infos aligned with actions": (_replace(2, KEY, lambda x: np.roll(x, -1)), KEY, (2, 0)),
    "infos a step late": (_replace(2, KEY, _shift_later), KEY, (2, 1)),
    "infos of another episode": (
        _h5(lambda f: f[f"episode_1/{KEY}"].write_direct(f[f"episode_0/{KEY}"][()])),
        KEY,
        (1, 1),
    ),
    "infos two-dimensional": (_replace(0, KEY, lambda x: np.repeat(x, 2, axis=1)), KEY, (0,)),
    "infos as text": (_replace(0, KEY, lambda x: x.astype("S12")), KEY, (0,)),
    "NaN density": (_set(3, KEY, 7, np.nan), KEY, (3, 7)),
    "infinite density": (_set(3, KEY, 7, np.inf), KEY, (3, 7)),
    "zero-probability action": (_set(4, KEY, 9, -np.inf), KEY, (4, 9)),
    "no densities": (_h5(lambda f: f["episode_3/infos"].pop("behavior_log_prob")), KEY, (3,)),
    "no infos": (_h5(lambda f: f["episode_0"].pop("infos")), KEY, (0,)),
    "no rewards": (_h5(lambda f: f["episode_2"].pop("rewards")), "rewards", (2,)),
    "no observations": (_h5(lambda f: f["episode_2"].pop("observations")), "observations", (2,)),
    "no terminations": (_h5(lambda f: f["episode_4"].pop("terminations")), "terminations", (4,)),
    "as many observations as steps": (
        _replace(1, "observations", lambda x: x[:-1]),
        "observations",
        (1,),
    ),
    "an action too few": (_replace(1, "actions", lambda x: x[:-1]), "actions", (1,)),
    "rewards too long": (_replace(2, "rewards", lambda x: np.append(x, 0.0)), "observations", (2,)),
    "truncations too short": (
        _replace(0, "truncations", lambda x: x[:5]),
        "truncations",
        (0,),
    ),
    "NaN observation": (_set(2, "observations", (4, 1), np.nan), "observations", (2, 4, 1)),
    "infinite action": (_set(2, "actions", (4, 1), np.inf), "actions", (2, 4, 1)),
    "NaN reward": (_set(0, "rewards", 11, np.nan), "rewards", (0, 11)),
    "one clipped action": (_clip_one, KEY, None),
    "clipped, with the density of the clipped": (_clip_all_and_their_densities, "actions", None),
    "actions a step late": (_replace(3, "actions", _shift_later), KEY, (3, 2)),
    "ended in the middle": (_set(3, "terminations", 12, True), "terminations", (3, 12)),
    "an action dimension lost": (_replace(2, "actions", lambda x: x[:, :1]), "actions", (2,)),
    "a ragged space": (
        _replace(2, "observations", lambda x: x[:, :7]),
        "observations",
        (2,),
    ),
    "a missing episode": (_h5(lambda f: f.pop("episode_2")), "metadata.json/total_episodes", None),
    "a gap in the numbers": (
        _h5(lambda f: f.move("episode_2", "episode_9")),
        "main_data.hdf5",
        (2,),
    ),
    "an empty episode": (_empty, "rewards", (1,)),
    "two flags a step": (
        _replace(4, "terminations", lambda x: np.stack([x, x], axis=1)),
        "terminations",
        (4,),
    ),
    "half an episode": (
        _metadata(total_episodes=lambda n: float(n)),
        "metadata.json/total_episodes",
        None,
    ),
    "another total of steps": (
        _metadata(total_steps=lambda n: n - 1),
        "metadata.json/total_steps",
        None,
    ),
    "arrow": (_metadata(data_format=lambda _: "arrow"), "metadata.json/data_format", None),
    "no space": (
        _metadata(observation_space=None, env_spec=None),
        "metadata.json/observation_space",
        None,
    ),
    "an environment's specification that is none": (
        _metadata(env_spec=lambda _: "[]"),
        "metadata.json/env_spec",
        None,
    ),
    "a policy whose weights are a number": (
        _description(lambda d: d["fields"].update(weights=1.0)),
        "metadata.json/gamps_behaviour",
        None,
    ),
    "a policy of absurd size": (
        _description(lambda d: d["fields"]["weights"].update(dtype="S2147483647", array=[1] * 99)),
        "metadata.json/gamps_behaviour",
        None,
    ),
    "a policy without end": (
        _metadata(gamps_behaviour=lambda _: '{"tuple": [' * 5000 + "]}" * 5000),
        "metadata.json/gamps_behaviour",
        None,
    ),
    "a discount above one": (
        _metadata(gamps_discount=lambda _: "1.5"),
        "metadata.json/gamps_discount",
        None,
    ),
    "another policy": (
        _description(lambda d: d["fields"]["log_std"].update(array=[0.0, 0.0])),
        KEY,
        (0, 1),
    ),
    "a policy of other size": (
        _description(lambda d: d["fields"]["weights"].update(array=[[0.0, 0.0]])),
        "metadata.json/gamps_behaviour",
        None,
    ),
    "a policy that names a foreign class": (
        _description(lambda d: d.update({"class": "os.system"})),
        "metadata.json/gamps_behaviour",
        None,
    ),
    "half a file": (_cut_file, "main_data.hdf5", None),
    "half the metadata": (
        lambda f: (f / "data" / "metadata.json").write_text('{"total'),
        "metadata.json",
        None,
    ),
    "one flipped bit": (_flip, "data/main_data.hdf5", None),
    "hashes that are none": (lambda f: (f / HASHES).write_text("[]"), HASHES, None),
}


def test_there_are_thirty_kinds_of_damage():
    assert len(DAMAGE) >= 30


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named(kind, written, tmp_path):
    damage, field, index = DAMAGE[kind]
    folder = tmp_path / "copy"
    shutil.copytree(written, folder)
    assert datasets.load(folder).trajectories.n_trajectories == 5  # sound until damaged
    damage(folder)
    with pytest.raises(DatasetError) as caught:
        datasets.load(folder)
    error = caught.value
    assert error.field == field, str(error)
    if index is not None:
        assert error.index is not None
        assert error.index[: len(index)] == index, str(error)
    assert error.problem
    assert error.fix


def test_no_flipped_bit_raises_anything_else(written, tmp_path):
    """Sixty bits all over the file, with and without the hashes that would see each of them."""
    original = (written / "data" / "main_data.hdf5").read_bytes()
    rng, refused = np.random.default_rng(0), 0
    folder = tmp_path / "copy"
    shutil.copytree(written, folder)
    (folder / HASHES).unlink()
    # Most of the file is numbers; its structure lies in between, and half of the bits go there.
    for i in range(60):
        content = bytearray(original)
        place = rng.integers(4096 if i % 2 else len(content))
        content[place] ^= 1 << rng.integers(8)
        (folder / "data" / "main_data.hdf5").write_bytes(bytes(content))
        try:
            datasets.load(folder)
        except DatasetError:
            refused += 1
    assert refused > 5
    shutil.copy(written / HASHES, folder / HASHES)
    with pytest.raises(DatasetError):
        datasets.load(folder)


def test_loading_runs_nothing_that_the_file_names(written, tmp_path):
    folder, mark = tmp_path / "copy", tmp_path / "mark"
    shutil.copytree(written, folder)
    evil = {"id": "Evil-v0", "entry_point": "os:system", "kwargs": {"command": f"touch {mark}"}}
    keep = json.loads((folder / "data" / "metadata.json").read_text())["env_spec"]
    for missing in ({}, {"observation_space": None}, {"action_space": None}):
        shutil.rmtree(folder)
        shutil.copytree(written, folder)
        (folder / HASHES).unlink()
        _metadata(env_spec=lambda _: json.dumps(json.loads(keep) | evil), **missing)(folder)
        with contextlib.suppress(DatasetError):
            datasets.load(folder)
        assert not mark.exists()


def test_an_action_that_is_no_choice(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    policy = Boltzmann(jnp.zeros((2, 4)), OneHot(2))
    density = np.full(3, np.log(0.25))
    log = from_episodes([Episode([0, 1, 0, 1], [0, 3, 2], np.zeros(3), density)])
    folder = datasets.save("own/choice-v0", log, policy)
    datasets.load(folder)
    (folder / HASHES).unlink()
    _set(0, "actions", 1, 99)(folder)
    with pytest.raises(DatasetError, match="99, but there are 4 choices") as caught:
        datasets.load(folder)
    assert caught.value.index == (0, 1)


class Mutating(gymnasium.Env):
    """Hands out its own state, and changes it."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        self.state = np.zeros(1)
        return self.state, {}

    def step(self, action):
        self.state += 1
        return self.state, 0.0, False, False, {}


def test_an_environment_may_reuse_its_arrays():
    policy = LinearGaussianPolicy(jnp.ones((2, 1)), log_std=jnp.zeros(1))
    log = datasets.collect(Mutating, policy, jax.random.key(0), n=2, steps=4)
    np.testing.assert_array_equal(log.observations[:, :, 0], [[0, 1, 2, 3, 4]] * 2)
    np.testing.assert_allclose(log.behaviour_log_prob, log_probs(policy, log), atol=1e-12)


def test_overwriting_replaces_one_dataset_and_no_folder_of_many(
    tmp_path, monkeypatch, swimmer_log, written
):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    datasets.save("many-v0/inner-v0", swimmer_log, swimmer.policy())
    with pytest.raises(OutputError, match="not a dataset"):
        datasets.save("many-v0", swimmer_log, swimmer.policy(), overwrite=True)
    first = jax.tree.map(lambda x: x[:2], swimmer_log)
    folder = datasets.save("many-v0/inner-v0", first, swimmer.policy(), overwrite=True)
    assert equal(datasets.load(folder).trajectories, first)
    assert sorted(p.name for p in folder.parent.iterdir()) == [
        "inner-v0",
        "namespace_metadata.json",
    ]


FLOAT32 = """
import jax, numpy as np
from gamps import datasets
from gamps.envs import swimmer
from gamps.policies import log_probs
policy = swimmer.policy()
log = datasets.collect(swimmer.ID, policy, jax.random.key(0), n=4, steps=50)
assert log.observations.dtype == np.float32
datasets.save("swimmer/small-v0", log, policy, env=swimmer.ID, discount=0.99)
found = datasets.load("swimmer/small-v0")
for a, b in zip(jax.tree.leaves(log), jax.tree.leaves(found.trajectories), strict=True):
    assert a.dtype == b.dtype and np.array_equal(a, b)
again = log_probs(found.behaviour, found.trajectories)
assert np.abs(again - log.behaviour_log_prob).max() < 1e-5
print("fine")
"""


def test_bit_equal_in_single_precision(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FLOAT32], capture_output=True, text=True, check=False,
        env=os.environ | {"MINARI_DATASETS_PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.strip() == "fine", done.stderr


def test_clipping_is_seen_without_a_policy(written, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(written, folder)
    _metadata(gamps_behaviour=lambda _: "null")(folder)
    (folder / HASHES).unlink()
    assert datasets.load(folder).behaviour is None
    _replace(1, "actions", lambda x: np.clip(x, -0.4, 0.4))(folder)
    _replace(2, "actions", lambda x: np.clip(x, -2.0, 0.3))(folder)
    for i in (0, 3, 4):
        _replace(i, "actions", lambda x: np.clip(x, -0.4, 0.4))(folder)
    with pytest.raises(DatasetError, match="look clipped") as caught:
        datasets.load(folder)
    assert caught.value.field == "actions"


def test_a_changed_dataset_can_be_hashed_again(written, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(written, folder)
    _flip(folder)
    write_hashes(folder)
    datasets.load(folder)


def test_nothing_is_overwritten_unasked(written, swimmer_log, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(written.parent.parent))
    before = {p: p.read_bytes() for p in written.rglob("*") if p.is_file()}
    with pytest.raises(OutputError, match="exists already"):
        datasets.save(NAME, swimmer_log, swimmer.policy())
    assert before == {p: p.read_bytes() for p in written.rglob("*") if p.is_file()}
    assert [p.name for p in written.parent.iterdir() if p.name.startswith(".")] == []


def test_names_that_are_none(monkeypatch, tmp_path, swimmer_log):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for name in ("../escape-v0", "swimmer", "a b-v0"):
        with pytest.raises(DatasetError, match="is not a Minari dataset name"):
            datasets.save(name, swimmer_log, swimmer.policy())
    with pytest.raises(DatasetError, match="no data"):
        datasets.load("nothing-v0")


def test_policies_are_written_down_and_rebuilt():
    key = jax.random.key(0)
    forced = jnp.array([-1, 3])
    for policy in (
        MLPGaussianPolicy.create(key, observations=3, actions=2, std=0.3),
        Boltzmann(jax.random.normal(key, (2, 4)), OneHot(2), forced=forced),
        Minigolf().policy(),
        swimmer.policy(),
        SoftClipped.of(swimmer.policy(), -1.0, 1.0),
    ):
        again = rebuild(json.loads(json.dumps(describe(policy))))
        assert jax.tree.structure(again) == jax.tree.structure(policy)
        assert equal(again, policy)


def test_collect_at_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    arguments = ["collect", "Swimmer-v5", "--dataset", NAME, "--episodes", "3", "--steps", "8"]
    main([*arguments, "--workers", "1"])
    assert "3 episodes, 24 steps" in capsys.readouterr().out
    assert datasets.load(NAME).trajectories.n_steps == 8
    with pytest.raises(SystemExit):
        main(arguments)
    assert "--overwrite" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["collect", "NoSuchEnv-v0", "--dataset", "no/such-v0"])
    assert "NoSuchEnv" in capsys.readouterr().err
    main(["collect", "gamps/TwoAreas-v0", "--dataset", "two/areas-v0", "--episodes", "2",
          "--steps", "5", "--workers", "1"])  # fmt: skip
    assert isinstance(datasets.load("two/areas-v0").behaviour, Boltzmann)
    own = ["collect", "gamps/TwoTanks-v0", "--dataset", "two/tanks-v0", "--episodes", "2",
           "--steps", "5", "--workers", "1", "--policy"]  # fmt: skip
    main([*own, "gamps.envs.tanks:policy"])
    kept = datasets.load("two/tanks-v0").behaviour
    assert jnp.array_equal(kept.weights, tanks.policy().weights)
    for wrong in ("gamps.envs.tanks:nothing", "gamps.envs.tanks:reward", "no-such-file.json"):
        with pytest.raises(SystemExit):
            main([*own, wrong, "--overwrite"])
        assert "gamps: policy: " in capsys.readouterr().err


def test_what_cannot_be_sent_to_a_process_is_named():
    def local():
        return gymnasium.make(swimmer.ID)

    for make in (local, lambda: gymnasium.make(swimmer.ID)):
        with pytest.raises(SettingError, match="cannot be sent"):
            datasets.collect(make, swimmer.policy(), jax.random.key(0), n=17, steps=2, workers=2)


def test_bad_settings_are_named():
    with pytest.raises(SettingError, match="at least one"):
        datasets.collect(swimmer.ID, swimmer.policy(), jax.random.key(0), n=0)
    with pytest.raises(SettingError, match="positive"):
        datasets.policy_for(swimmer.ID, std=0.0)
    with pytest.raises(SettingError, match="functional environment has no limit"):
        datasets.collect(Minigolf(), Minigolf().policy(), jax.random.key(0), n=1)


WITHOUT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"minari", "h5py", "mujoco"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
import gamps, gamps.datasets, gamps.cli
from gamps.errors import MissingExtraError, SettingError
for call, error, words in (
    (lambda: gamps.datasets.load("a-v0"), MissingExtraError, "gamps[minari]"),
    (lambda: gamps.datasets.policy_for("Swimmer-v5"), SettingError, "gamps[mujoco]"),
):
    try:
        call()
    except error as caught:
        assert words in str(caught), caught
    else:
        raise SystemExit("no error")
print("fine")
"""


def test_the_core_works_without_the_extras():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr


def test_linear_policies_of_any_environment():
    policy = datasets.policy_for("Swimmer-v5", std=0.2)
    assert isinstance(policy, LinearGaussianPolicy)
    np.testing.assert_allclose(jnp.exp(policy.log_std), 0.2)


def test_the_limits_of_the_actuators_are_kept(tmp_path, monkeypatch):
    """Of the environment, or as given; models see actions as the actuators carry them out."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    policy = tanks.policy(std=2.0)
    log = datasets.collect(tanks.ID, policy, jax.random.key(0), n=6, steps=5)
    assert float(log.actions.max()) > 1.0
    datasets.save("tanks/known-v0", log, policy, env=tanks.ID, discount=0.98)
    data = datasets.load("tanks/known-v0")
    assert [limit.tolist() for limit in data.limits] == [[0.0], [1.0]]
    assert [limit.tolist() for limit in datasets.stream("tanks/known-v0").limits] == [[0.0], [1.0]]
    features = features_of("", data.trajectories, data.limits)
    for action, carried_out in ((-3.0, 0.0), (0.5, 0.5), (7.0, 1.0)):
        state = jnp.array([0.1, 0.2], float)
        expected = jnp.array([0.1, 0.2, carried_out], float)
        np.testing.assert_array_equal(features(state, jnp.array([action], float)), expected)

    datasets.save("tanks/unknown-v0", log, policy, discount=0.98)
    assert datasets.load("tanks/unknown-v0").limits is None
    given = (np.array([0.2]), np.array([0.8]))
    datasets.save("tanks/given-v0", log, policy, env=tanks.ID, limits=given)
    assert [limit.tolist() for limit in datasets.load("tanks/given-v0").limits] == [[0.2], [0.8]]


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"action_space": '{"type": "Box", "low": [-1, -2], "high": [1, 2]}'}, [[-1, -2], [1, 2]]),
        ({"action_space": '{"type": "Box", "low": [-Infinity], "high": [1]}'}, None),
        ({"action_space": '{"type": "Box", "low": [1], "high": [1]}'}, None),
        ({"action_space": '{"type": "Discrete", "n": 3}'}, None),
        ({"action_space": "{}", "gamps_action_limits": "[[0.0], [1.0]]"}, [[0], [1]]),
    ],
)
def test_limits_of_other_datasets(metadata, found):
    limits = limits_of(metadata)
    assert (None if limits is None else [limit.tolist() for limit in limits]) == found


@pytest.mark.parametrize("stored", ["[", "3", '["a", "b"]', "[[0.0]]"])
def test_limits_that_cannot_be_read_are_named(stored):
    with pytest.raises(DatasetError, match="gamps_action_limits"):
        limits_of({"action_space": "{}", "gamps_action_limits": stored})
