"""Logs from tables and flat arrays: read right, and every kind of damage named with its place."""

import csv

import numpy as np
import pytest

from gamps.datasets import Columns, from_flat, read_table
from gamps.errors import DatasetError
from gamps.trajectories import from_episodes

HEAD = ["run", "t", "x", "y", "u", "r", "logp", "nx", "ny", "end"]
COLUMNS = Columns("run", ("x", "y"), ("u",), "r", "logp")
NEXT = COLUMNS._replace(next_observations=("nx", "ny"), terminated="end", time="t")


def rows(episodes=3, steps=4):
    """x counts steps over all episodes, y is the episode's number."""
    return [
        [i, t, 10 * i + t, i, 0.5 * t, -t, -1.25, 10 * i + t + 1, i, int(t == steps - 1 and i == 1)]
        for i in range(episodes)
        for t in range(steps)
    ]


def write(path, table, head=HEAD):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *table])
    return path


def parquet(path, table, head=HEAD):
    pyarrow, files = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {name: [row[j] for row in table] for j, name in enumerate(head)}
    files.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_next_observations_keep_every_step(tmp_path, kind):
    path = (write if kind == "csv" else parquet)(tmp_path / f"log.{kind}", rows())
    log = from_episodes(read_table(path, NEXT))
    assert log.mask.shape == (3, 4)
    assert np.asarray(log.observations[1, :, 0]).tolist() == [10, 11, 12, 13, 14]
    assert np.asarray(log.actions[2, :, 0]).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert np.asarray(log.terminated).tolist() == [False, True, False]


def test_without_next_observations_the_last_row_is_where_it_ended(tmp_path):
    log = from_episodes(read_table(write(tmp_path / "log.csv", rows()), COLUMNS))
    assert log.mask.shape == (3, 3)
    assert np.asarray(log.observations[0, :, 0]).tolist() == [0, 1, 2, 3]


def test_a_last_row_of_observations_only(tmp_path):
    table = rows(2)
    for place, i in ((8, 1), (4, 0)):
        table.insert(place, [i, 4, 10 * i + 4, i, "", "", "", "", "", ""])
    log = from_episodes(read_table(write(tmp_path / "log.csv", table), COLUMNS))
    assert log.mask.shape == (2, 4)
    assert np.asarray(log.observations[1, :, 0]).tolist() == [10, 11, 12, 13, 14]


@pytest.mark.parametrize("row", [3, 4])
def test_an_end_may_be_said_in_either_of_the_last_rows(tmp_path, row):
    table = [[*r[:9], 0] for r in rows(1)] + [[0, 4, 4, 0, "", "", "", "", "", ""]]
    table[row][9] = 1
    columns = COLUMNS._replace(terminated="end")
    (episode,) = read_table(write(tmp_path / "log.csv", table), columns)
    assert episode.terminated
    assert len(episode.rewards) == 4


def test_choices_are_whole_numbers(tmp_path):
    columns = Columns("run", ("x", "y"), ("t",), "r", "logp", discrete=True)
    (first, *_) = read_table(write(tmp_path / "log.csv", rows()), columns)
    assert first.actions.dtype.kind == "i"
    with pytest.raises(DatasetError, match=r"u\[2\]: 0.5 is no choice"):
        read_table(tmp_path / "log.csv", columns._replace(actions=("u",)))


def put(row, column, value):
    def damage(table, head):
        table[row][head.index(column)] = value

    return damage


def swap(table, head):
    table[3], table[4] = table[4], table[3]


DAMAGES = {
    "no number": (put(5, "x", "high"), r"x\[6\]: 'high' is no number"),
    "empty": (put(5, "u", ""), r"u\[6\]: empty"),
    "nan": (put(2, "r", "nan"), r"r\[3\]: 'nan' is no finite number"),
    "infinite": (put(7, "logp", "-inf"), r"logp\[8\]: '-inf' is no finite number"),
    "no episode": (put(0, "run", ""), r"run\[1\]: empty"),
    "mixed episodes": (swap, r"run\[5\]: episode 0 goes on after another"),
    "time stands": (put(6, "t", 1), r"t\[7\]: does not grow"),
    "ends early": (put(5, "end", 1), r"end\[6\]: set before the last step"),
    "another next": (put(5, "nx", 99), r"next_observations\[6\]: not the observation"),
    "short row": (lambda table, head: table[3].pop(), r"row\[4\]: 9 entries, but the heading has"),
    "column missing": (lambda table, head: head.__setitem__(2, "z"), "x: no such column"),
    "column twice": (lambda table, head: head.__setitem__(3, "x"), "x: stands there twice"),
    "no rows": (lambda table, head: table.clear(), "run.*: no row"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(tmp_path, name):
    damage, message = DAMAGES[name]
    table, head = rows(), list(HEAD)
    damage(table, head)
    with pytest.raises(DatasetError, match=message):
        read_table(write(tmp_path / "log.csv", table, head), NEXT)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b'a,"b\n1', b"\x00" * 50])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_of_another_kind_are_refused(tmp_path, content, kind):
    (tmp_path / f"log.{kind}").write_bytes(content)
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    with pytest.raises(DatasetError):
        read_table(tmp_path / f"log.{kind}", NEXT)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_table(tmp_path / f"none.{kind}", NEXT)


def test_flat_arrays_are_cut_at_their_flags():
    n = 10
    seen = np.arange(n)[:, None].astype(float)
    ends, cuts = np.zeros(n, bool), np.zeros(n, bool)
    ends[3], cuts[7] = True, True
    following = seen + 1
    parts = dict(next_observations=following, behaviour_log_prob=np.zeros(n))
    episodes = from_flat(seen, seen, np.ones(n), ends, cuts, **parts)
    assert [len(e.rewards) for e in episodes] == [4, 4, 2]
    assert [e.terminated for e in episodes] == [True, False, False]
    with pytest.raises(DatasetError, match=r"next_observations\[3\]: missing"):
        from_flat(seen, seen, np.ones(n), ends, cuts)
    assert [len(e.rewards) for e in from_flat(seen, seen, np.ones(n), cuts & False, cuts)] == [7, 1]
    with pytest.raises(DatasetError, match="actions: 9 entries, but 10 rewards"):
        from_flat(seen, seen[1:], np.ones(n), ends, cuts, **parts)
    with pytest.raises(DatasetError, match="rewards: dtype"):
        from_flat(seen, seen, ["a"] * n, ends, cuts, **parts)
