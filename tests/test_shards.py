"""Logs larger than memory: what is written in pieces is the log, or nothing that opens."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import minari
import numpy as np
import pytest

from gamps import datasets
from gamps.datasets import open_shards, stream, stream_table, write_shards
from gamps.datasets.checks import check_not_clipped, extremes_of, joined
from gamps.errors import DatasetError, OutputError, SettingError
from gamps.policies import Boltzmann, LinearGaussianPolicy, OneHot, log_probs
from gamps.runs.build import split
from gamps.trajectories import Episode, from_episodes
from test_datasets import DAMAGE, swimmer_log, written  # noqa: F401 - fixtures
from test_tables import DAMAGES, HEAD, NEXT, parquet, rows, write

POLICY = LinearGaussianPolicy(0.3 * jnp.ones((4, 2)), log_std=jnp.zeros(2))
FIELDS = ("observations", "actions", "rewards", "behaviour_log_prob")
NAME = "own/long-v0"


def density(seen, actions):
    mean = 0.3 * (seen[:-1].sum(axis=1, keepdims=True) + 1)
    return -0.5 * ((actions - mean) ** 2).sum(axis=1) - np.log(2 * np.pi)


def episode(rng, steps, ended=False):
    seen = rng.normal(size=(steps + 1, 3)).astype(np.float32)
    actions = rng.normal(size=(steps, 2)).astype(np.float32)
    own = density(seen, actions).astype(np.float32)
    return Episode(seen, actions, rng.normal(size=steps).astype(np.float32), own, ended)


def episodes(n=60, longest=50, seed=0):
    rng = np.random.default_rng(seed)
    return [episode(rng, int(rng.integers(1, longest + 1)), bool(i % 3 == 0)) for i in range(n)]


@pytest.fixture(scope="module")
def log():
    return from_episodes(episodes())


@pytest.fixture
def kept(log, tmp_path, monkeypatch):
    """The log as a dataset."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return datasets.save(NAME, log, POLICY, discount=0.9)


def assert_rows(shards, log):
    """Every row of the shards is the row of the log that its number says."""
    seen, log = [], jax.tree.map(np.asarray, log)
    for i, shard in enumerate(shards):
        shard, real = jax.tree.map(np.asarray, shard), np.asarray(shard.lengths)
        for row, number in enumerate(shards.numbers(i)):
            steps = int(log.mask[number].sum())
            assert real[row] == steps
            assert bool(shard.terminated[row]) == bool(log.terminated[number])
            for name in FIELDS:
                own, size = getattr(shard, name), steps + (name == "observations")
                assert own.dtype == np.float32
                np.testing.assert_array_equal(own[row, :size], getattr(log, name)[number, :size])
            seen.append(int(number))
    return seen


def test_every_row_is_the_datasets(kept, log):
    shards = datasets.shards_of(NAME, steps=200)
    assert len(shards) > len(shards.shapes) > 3
    assert sorted(assert_rows(shards, datasets.load(NAME).trajectories)) == list(range(60))
    assert (shards.n_trajectories, shards.n_steps) == (60, int(log.lengths.sum()))
    assert (shards.discount, shards.densities) == (0.9, "known")
    assert jnp.array_equal(shards.behaviour.weights, POLICY.weights)


def test_a_bucket_has_one_shape_and_its_padding_is_harmless(kept):
    shards = datasets.shards_of(NAME, steps=200)
    short = 0
    for i, (entry, shard) in enumerate(zip(shards.entries, shards, strict=True)):
        n, steps = shards.shapes[entry.bucket]
        finite = np.isfinite(log_probs(POLICY, shard)).all()
        shard = jax.tree.map(np.asarray, shard)
        assert shard.mask.shape == (n, steps)
        assert shard.observations.shape == (n, steps + 1, 3)
        assert int(shard.mask.sum()) == entry.steps
        own = len(shards.numbers(i))
        short += own < n
        assert not shard.mask[own:].any()
        assert not shard.terminated[own:].any()
        assert finite
        for name in ("rewards", "behaviour_log_prob"):
            assert not getattr(shard, name)[~shard.mask].any()
    assert short
    padded = sum(n * steps for n, steps in (shards.shapes[e.bucket] for e in shards.entries))
    assert padded < 2 * shards.n_steps


def test_equal_episodes_are_not_padded(tmp_path):
    rng = np.random.default_rng(0)
    shards = write_shards([episode(rng, 100) for _ in range(7)], tmp_path / "s", steps=300)
    assert list(shards.shapes.values()) == [(3, 100)]
    assert [int((shard.lengths == 100).sum()) for shard in shards] == [3, 3, 1]


def test_choices_stay_whole_numbers(tmp_path):
    policy = Boltzmann(jnp.zeros((2, 4)), OneHot(2))
    own = [Episode([0, 1, 0], [0, 3], np.zeros(2), np.full(2, np.log(0.25)))] * 9
    (shard,) = write_shards(own, tmp_path / "s", behaviour=policy)
    assert (shard.actions.dtype, shard.observations.dtype) == (jnp.int32, jnp.int32)
    own[5] = own[5]._replace(actions=[0, 99])
    with pytest.raises(DatasetError, match=r"actions\[5, 1\]: 99, but there are 4 choices"):
        write_shards(own, tmp_path / "t", behaviour=policy)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


# Streams.


def test_a_stream_is_the_dataset(kept):
    loaded, *_ = datasets.load_episodes(NAME)
    found = stream(NAME)
    assert (found.n_trajectories, found.discount, found.densities) == (60, 0.9, "known")
    for one, other in zip(found.episodes(), loaded, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_stream_names_damage_as_loading_does(kind, written, tmp_path):  # noqa: F811
    damage, field, index = DAMAGE[kind]
    folder = tmp_path / "copy"
    shutil.copytree(written, folder)
    damage(folder)
    with pytest.raises(DatasetError) as caught:
        list(stream(folder).episodes())
    assert caught.value.field == field, str(caught.value)
    if index is not None:
        assert caught.value.index[: len(index)] == index, str(caught.value)
    with pytest.raises(DatasetError):
        datasets.shards_of(folder)
    assert not (folder / "shards").exists()


@pytest.mark.parametrize("size", [1, 3, 5, 8, 100])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_episodes_straddle_blocks_and_row_groups(tmp_path, kind, size):
    if kind == "csv":
        path = write(tmp_path / "log.csv", rows(5, 7))
    else:
        path = parquet(tmp_path / "log.parquet", rows(5, 7))
        files = pytest.importorskip("pyarrow.parquet")
        files.write_table(files.read_table(path), path, row_group_size=3)
        assert files.ParquetFile(path).num_row_groups == 12
    whole = datasets.read_table(path, NEXT)
    parts = list(stream_table(path, NEXT, rows=size))
    assert len(whole) == len(parts) == 5
    for one, other in zip(whole, parts, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", DAMAGES)
def test_blocks_name_damage_as_the_whole_table_does(tmp_path, name):
    damage, message = DAMAGES[name]
    table, head = rows(), list(HEAD)
    damage(table, head)
    with pytest.raises(DatasetError, match=message):
        list(stream_table(write(tmp_path / "log.csv", table, head), NEXT, rows=3))


def test_numbers_and_gaps_of_parquet(tmp_path):
    pyarrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = datasets.Columns("run", ("x",), ("u",), "r")
    table = {"run": ["a", "a", "a", "b", "b"], "x": [0.0, 1.0, 2.0, 3.0, float("nan")]}
    table |= {"u": [1, 2, None, 3, None], "r": [1.0, 2.0, None, 3.0, None]}
    files.write_table(pyarrow.table(table), tmp_path / "log.parquet")
    read = stream_table(tmp_path / "log.parquet", columns, rows=2)
    assert next(read).actions.tolist() == [[1.0], [2.0]]
    with pytest.raises(DatasetError, match=r"x\[5\]: nan is not a finite number"):
        next(read)


# Refused while writing.


def test_wrong_densities_are_named_by_episode_and_step(tmp_path):
    made = episodes()
    steps = [len(e.rewards) for e in made]
    place = next(i for i in range(20, 60) if steps[i] > 5)
    made[place].behaviour_log_prob[4] += 0.5
    problem = rf"behaviour_log_prob\[{place}, 4\]: .* but the behaviour policy gives"
    with pytest.raises(DatasetError, match=problem):
        write_shards(made, tmp_path / "s", behaviour=POLICY, steps=200)
    assert list(tmp_path.iterdir()) == []
    write_shards(made, tmp_path / "s", steps=200)  # nothing to compare them with


@pytest.mark.parametrize(
    ("field", "change", "problem"),
    [
        ("rewards", lambda x: np.where(np.arange(len(x)) == 2, np.nan, x), r"\[31, 2\]: nan"),
        ("rewards", lambda x: np.full(len(x), 1e300), r"\[31, 0\]: inf"),
        ("rewards", lambda x: x[:0], r"\[31\]: an episode without steps"),
        ("rewards", lambda x: np.float64(1.0), r"\[31\]: a scalar"),
        ("observations", lambda x: x[:-1], r"\[31\]: \d+ entries for"),
        ("observations", lambda x: x[:, :2], r"\[\d+\]: \(2,\) per step|\(2,\) of kind f per step"),
        ("actions", lambda x: [[1.0], [1.0, 2.0]], r"\[31\]: not an array"),
        ("actions", lambda x: x.astype(str), r"\[31\]: dtype"),
        ("behaviour_log_prob", lambda x: None, r"\[31\]: missing"),
        ("behaviour_log_prob", lambda x: np.full(len(x), -np.inf), r"\[31, 0\]: -inf"),
    ],
)
def test_bad_episodes_are_named(tmp_path, field, change, problem):
    made = episodes()
    made[31] = episode(np.random.default_rng(5), 12)
    made[31] = made[31]._replace(**{field: change(getattr(made[31], field))})
    with pytest.raises(DatasetError, match=problem) as caught:
        write_shards(made, tmp_path / "s", behaviour=POLICY, steps=200)
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


def test_a_clipped_log_is_refused(tmp_path):
    made = []
    for own in episodes():
        actions = np.clip(own.actions, -1.5, 9.0)
        made.append(own._replace(actions=actions, behaviour_log_prob=density(own[0], actions)))
    with pytest.raises(DatasetError, match="look clipped") as caught:
        write_shards(made, tmp_path / "s", behaviour=POLICY, steps=200)
    number, step = caught.value.index
    assert (made[number].actions[step] == -1.5).any()
    assert list(tmp_path.iterdir()) == []


def test_extremes_of_parts_are_those_of_the_whole(log):
    actions = jnp.round(log.actions, 1)
    whole = dataclasses.replace(log, actions=actions)
    parts = [jax.tree.map(lambda x, i=i: x[i : i + 7], whole) for i in range(0, 60, 7)]
    found = None
    for i, part in enumerate(parts):
        found = joined(found, extremes_of(part, range(7 * i, 7 * i + 7)))
    for one, other in zip(found, extremes_of(whole), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("steps", "drawn", "clipped"), [(800, 1, 2), (200_000, 3, 4), (10**9, 140, 166)]
)
def test_extremes_repeat_in_long_logs(log, steps, drawn, clipped):
    found = extremes_of(log)._replace(steps=steps)
    check_not_clipped(found._replace(times=np.full((2, 2), drawn)))
    with pytest.raises(DatasetError, match="look clipped"):
        check_not_clipped(found._replace(times=np.full((2, 2), clipped)))


def test_extremes_of_single_precision_repeat_no_oftener_than_said():
    draws = jax.random.normal(jax.random.key(1), (200, 200_000), "float32")
    both = jnp.stack([draws, -draws])
    repeated = int(jnp.sum(jnp.sum(both == both.max(axis=2, keepdims=True), axis=2) > 1))
    # Points of probability 2^-23 repeat in 2.4 % of them: more than 24 of 400 in 1e-5 of tests.
    assert 0 < repeated <= 24


def test_settings_are_checked(tmp_path):
    made = episodes(3)
    for words in ({"steps": 0}, {"discount": 1.5}, {"densities": "missing"}):
        with pytest.raises(SettingError, match=next(iter(words))):
            write_shards(made, tmp_path / "s", **words)
    with pytest.raises(DatasetError, match="none"):
        write_shards([], tmp_path / "s")
    (tmp_path / "other").mkdir()
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="exists already"):
            write_shards(made, tmp_path / "other", overwrite=overwrite)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file"):
        write_shards(made, tmp_path / "file" / "s")


# Damage afterwards.


def same_json(one, other):
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


def use(folder):
    opened = open_shards(folder)
    opened.split(0.2, 0)
    return sum(shard.n_trajectories for shard in opened)


def test_a_flipped_bit_anywhere_is_refused_by_its_file(tmp_path):
    shards = write_shards(episodes(), tmp_path / "s", steps=400, behaviour=POLICY)
    rng = np.random.default_rng(0)
    for path in sorted(shards.folder.iterdir()):
        content = path.read_bytes()
        for place in (0, len(content) - 3, *rng.integers(len(content), size=4)):
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(7)
            path.write_bytes(damaged)
            if path.name == "manifest.json" and same_json(damaged, content):
                continue  # white space means nothing
            with pytest.raises(DatasetError) as caught:
                use(shards.folder)
            assert caught.value.field == str(path)
        path.write_bytes(content)
    path.unlink()
    with pytest.raises(DatasetError, match=path.name):
        list(open_shards(shards.folder))


def test_a_shard_is_hashed_once(tmp_path):
    shards = write_shards(episodes(), tmp_path / "s", steps=400)
    first = shards.shard(0)
    path = shards.folder / shards.entries[0].file
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert shards.only([0]).shard(0).mask.shape == first.mask.shape
    with pytest.raises(DatasetError, match="hash differs"):
        open_shards(shards.folder).shard(0)


KILLED = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_shards import POLICY, episodes
from gamps.datasets import write_shards
def slow():
    for i in range(1000):
        yield from episodes(20, seed=i)
        time.sleep(0.02)
write_shards(slow(), sys.argv[1], behaviour=POLICY, steps=200, overwrite=True)
"""


@pytest.mark.parametrize("before", [False, True])
def test_killed_in_the_middle(tmp_path, before):
    target = tmp_path / "s"
    if before:
        write_shards(episodes(9), target)
    here = str(Path(__file__).parent)
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(target), here])
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob(".s.writing-*/shard-*"))) < 3:
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if not before:  # another writer does not take a living one's files away
        write_shards(episodes(3), target).folder.rename(tmp_path / "other")
        assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    if before:
        assert open_shards(target).n_trajectories == 9
    else:
        with pytest.raises(DatasetError, match=r"manifest\.json"):
            open_shards(target)
    (left,) = tmp_path.glob(".s.writing-*")
    with pytest.raises(DatasetError, match=r"manifest\.json"):
        open_shards(left)
    assert write_shards(episodes(), target, overwrite=before).n_trajectories == 60
    assert list(tmp_path.glob(".s.*")) == []


# Iteration.


def readers():
    return [t for t in threading.enumerate() if t.name.startswith("gamps-shards")]


def test_the_reading_thread_ends(tmp_path):
    shards = write_shards(episodes(), tmp_path / "s", steps=200)
    assert len(list(shards)) == len(shards)
    assert readers() == []
    going = iter(shards)
    next(going)
    assert len(readers()) == 1
    going.close()
    assert readers() == []
    with pytest.raises(ZeroDivisionError):
        sum(1 // 0 for _ in shards)
    assert readers() == []
    assert list(shards.only([])) == []


def test_the_next_shard_is_read_meanwhile_and_no_more(tmp_path, monkeypatch):
    shards = write_shards(episodes(), tmp_path / "s", steps=200)
    asked, real = [], type(shards).shard
    monkeypatch.setattr(type(shards), "shard", lambda s, i: (asked.append(i), real(s, i))[1])
    going = iter(shards)
    next(going)
    deadline = time.monotonic() + 10
    while len(asked) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert asked == [0, 1]
    going.close()


def test_an_error_of_the_thread_is_the_consumers(tmp_path):
    shards = write_shards(episodes(), tmp_path / "s", steps=200)
    (shards.folder / shards.entries[2].file).unlink()
    going = iter(shards)
    next(going), next(going)
    with pytest.raises(DatasetError, match=shards.entries[2].file):
        next(going)
    assert readers() == []


# Selections.


def test_some_of_the_shards(tmp_path, log):
    shards = write_shards(episodes(), tmp_path / "s", steps=200)
    some = shards.only([4, 1])
    assert [e.file for e in some.entries] == [shards.entries[i].file for i in (4, 1)]
    assert some.n_steps == shards.entries[4].steps + shards.entries[1].steps
    assert some.shard(0).mask.shape == shards.shard(4).mask.shape
    assert len(assert_rows(some, log)) == some.n_trajectories


def test_a_sample_is_of_all_lengths(tmp_path, log):
    """All of it, row for row, where it is allowed; otherwise the same share of every shard."""
    shards = write_shards(episodes(), tmp_path / "sampled", steps=200)
    whole = shards.sample(10**9)
    assert whole.n_trajectories == shards.n_trajectories
    np.testing.assert_array_equal(whole.lengths, log.lengths)
    for i, length in enumerate(np.asarray(log.lengths)):
        np.testing.assert_allclose(
            whole.observations[i, : length + 1], log.observations[i, : length + 1], rtol=1e-6
        )
    half = shards.sample(shards.n_steps // 2)
    assert sum(-(-entry.rows // 2) for entry in shards.entries) >= half.n_trajectories
    assert half.n_trajectories >= shards.n_trajectories / 2


def test_the_split_is_that_of_a_log_in_memory(tmp_path, log):
    shards = write_shards(episodes(), tmp_path / "s", steps=200)
    numbered = dataclasses.replace(log, rewards=jnp.arange(60.0)[:, None] * jnp.ones(log.n_steps))
    parts, views = split(numbered, 0.2, seed=3), shards.split(0.2, 3)
    for part, view in zip(parts, views, strict=True):
        expected = np.asarray(part.rewards[:, 0]).astype(int).tolist()
        assert sorted(assert_rows(view, log)) == expected
        assert view.n_trajectories == len(expected)
        assert view.n_steps == int(part.lengths.sum())
        assert sum(int(shard.mask.sum()) for shard in view) == view.n_steps
    for seed in range(8):  # the last episode is among those left out first, for some
        for view in shards.split(0.2, seed)[0].split(0.2, seed):
            assert sum(int(part.mask[:, 0].sum()) for part in view) == view.n_trajectories
    again = split(parts[0], 0.2, seed=3), views[0].split(0.2, 3)
    for part, view in zip(*again, strict=True):
        assert sorted(assert_rows(view, log)) == np.asarray(part.rewards[:, 0]).tolist()
    for share in (0.0, 1.0):
        with pytest.raises(SettingError, match="share"):
            shards.split(share, 0)
    with pytest.raises(SettingError, match="at least five"):
        write_shards(episodes(7), tmp_path / "few").split(0.2, 0)


# By a dataset's name, and written in chunks.


def test_shards_of_a_dataset_are_kept_until_it_changes(kept, log):
    calls = []
    first = datasets.shards_of(NAME, steps=300, advance=calls.append)
    assert (len(calls), first.folder) == (60, kept / "shards")
    calls.clear()
    assert datasets.shards_of(NAME, steps=300, advance=calls.append).n_trajectories == 60
    os.utime(kept / "data" / "main_data.hdf5")  # another time, the same bytes
    datasets.shards_of(NAME, steps=300, advance=calls.append)
    assert calls == []
    (kept / "shards" / "manifest.json").write_text("{")
    datasets.shards_of(NAME, steps=300, advance=calls.append)
    assert len(calls) == 60
    datasets.shards_of(NAME, steps=500, advance=calls.append)
    assert len(calls) == 120
    datasets.save(NAME, jax.tree.map(lambda x: x[:20], log), POLICY, overwrite=True)
    assert datasets.shards_of(NAME).n_trajectories == 20
    assert datasets.load(NAME).trajectories.n_trajectories == 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(minari.list_local_datasets()) == [NAME]


def test_chunks_make_the_same_dataset(kept, log):
    chunks = (jax.tree.map(lambda x, i=i: x[i : i + 25], log) for i in range(0, 60, 25))
    folder = datasets.save("own/chunks-v0", chunks, POLICY, discount=0.9)
    one, other = datasets.load(NAME), datasets.load(folder)
    pairs = zip(*map(jax.tree.leaves, (one.trajectories, other.trajectories)), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert other.discount == 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert minari.load_dataset("own/chunks-v0").total_episodes == 60
    wide = dataclasses.replace(log, actions=jnp.concatenate([log.actions] * 2, axis=-1))
    for bad, field in (([], "chunks"), ([log, wide], "actions")):
        with pytest.raises(DatasetError, match=field):
            datasets.save("own/bad-v0", iter(bad), POLICY)
        assert not datasets.folder_of("own/bad-v0").exists()


BOUNDED = """
import resource, sys
import jax, jax.numpy as jnp, numpy as np
from gamps.datasets import save, shards_of, write_shards
from gamps.policies import LinearGaussianPolicy
from gamps.trajectories import Episode, Trajectories
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
policy = LinearGaussianPolicy(jnp.zeros((65, 2)), log_std=jnp.zeros(2))
rng = np.random.default_rng(0)
seen = rng.normal(size=(2001, 64)).astype("f4")
def made(n):
    for i in range(n):
        actions = rng.normal(size=(2000, 2)).astype("f4")
        density = -0.5 * (actions**2).sum(axis=1) - np.log(2 * np.pi)
        yield Episode(seen + i, actions, density, density)
def chunks(n):
    for e in made(n):
        one = [jnp.asarray(np.asarray(x, "f4")[None]) for x in e[:4]]
        yield Trajectories(*one, jnp.ones((1, 2000), bool), jnp.zeros(1, bool))
def whole(n, name):
    shards = write_shards(made(n), sys.argv[1] + name, behaviour=policy, steps=20_000)
    save(f"own/{name}-v0", chunks(n // 4), policy)
    for kept in (shards, shards_of(f"own/{name}-v0", steps=20_000)):
        for shard in kept:
            float(shard.rewards.sum())
    return shards
whole(48, "few")
before = peak()
shards = whole(700, "many")
size = sum(path.stat().st_size for path in shards.folder.iterdir()) / 2**20
print(size, peak() - before)
"""


@pytest.mark.full
def test_memory_is_bounded(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, f"{tmp_path}/"], capture_output=True, text=True,
        check=False, env=os.environ | {"MINARI_DATASETS_PATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    size, grown = map(float, done.stdout.split())
    assert size > 360
    assert grown < 90, grown
