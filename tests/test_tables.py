"""Logs from tables and flat arrays: read right, and every kind of damage named with its place."""

import csv
import sys
import time
import types
from datetime import datetime

import numpy as np
import pytest

from gamps.datasets import (
    Account,
    Columns,
    check_precision,
    from_flat,
    newest_of,
    out_of_order,
    read_table,
    stream_labelled,
)
from gamps.errors import DatasetError
from gamps.trajectories import Episode, from_episodes, known_transitions

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


def test_where_nothing_follows_the_last_step_is_kept(tmp_path):
    log = from_episodes(read_table(write(tmp_path / "log.csv", rows()), COLUMNS))
    assert log.mask.shape == (3, 4)
    assert np.asarray(log.observations[0, :, 0]).tolist() == [0, 1, 2, 3, 3]
    assert np.asarray(known_transitions(log)).tolist() == [[True, True, True, False]] * 3


def test_flags_cut_episodes_where_no_column_does(tmp_path):
    """Set by the environment, by the clock, and by both, as older libraries write it."""
    table = [[0, 0, float(i), 0.0, 0.5, 1.0, -1.0, 0, 0, 0] for i in range(9)]
    head = ["run", "t", "x", "y", "u", "r", "logp", "p", "done", "late"]
    table[1][8], table[4][9], table[7][8], table[7][9] = 1, "true", 1, 1
    columns = Columns("", ("x", "y"), ("u",), "r", "logp", terminated="done", timeout="late")
    account = Account()
    path = write(tmp_path / "log.csv", table, head)
    for size in (2, 3, 100):
        account = Account()
        read = list(stream_labelled(path, columns, rows=size, account=account))
        assert [len(one.episode.rewards) for one in read] == [2, 3, 3, 1]
        assert [one.episode.terminated for one in read] == [True, False, False, False]
        assert (account.rows, account.steps, account.closing) == (9, 9, 0)
        assert account.unknown_ends == 4
    with pytest.raises(DatasetError, match="episode: no column"):
        read_table(path, columns._replace(terminated=None, timeout=None))


def test_states_may_be_numbered():
    frame = Frame(run=[0] * 3, s=[4, 0, 2], a=[1, 1, 0], r=[1.0] * 3)
    columns = Columns("run", ("s",), ("a",), "r", discrete=True, numbered=True)
    (episode,) = read_table(frame, columns)
    assert episode.observations.tolist() == [4, 0, 2, 2]
    assert episode.observations.dtype.kind == "i"
    with pytest.raises(DatasetError, match=r"s\[2\]: 0.5 is not a choice"):
        read_table(Frame(**frame.values | {"s": [4, 0.5, 2]}), columns)


def test_propensities_are_probabilities(tmp_path):
    table = [[i // 2, i, float(i), i % 3, 1.0, 0.25] for i in range(6)]
    head = ["run", "t", "x", "drug", "r", "p"]
    columns = Columns("run", ("x",), ("drug",), "r", propensity="p", discrete=True)
    (first, *_) = read_table(write(tmp_path / "log.csv", table, head), columns)
    np.testing.assert_allclose(first.behaviour_log_prob, np.log([0.25, 0.25]))
    for wrong in (0.0, 1.5, -0.1):
        table[3][5] = wrong
        with pytest.raises(DatasetError, match=r"p\[4\]: .* cannot be the probability"):
            read_table(write(tmp_path / "log.csv", table, head), columns)
    with pytest.raises(DatasetError, match="propensity: of actions that are numbers"):
        read_table(tmp_path / "log.csv", columns._replace(discrete=False))


@pytest.mark.parametrize(
    "times",
    [
        ("2026-03-01T06:00", "2026-03-01T06:05", "2026-03-02"),
        (datetime(2026, 3, 1), datetime(2026, 3, 1, 1), datetime(2026, 4, 1)),
        (1.5, 2.5, 3.5),
    ],
)
def test_times_may_be_dates(times):
    frame = Frame(run=[0] * 3, t=list(times), x=[0.0, 1.0, 2.0], u=[0.5] * 3, r=[1.0] * 3)
    columns = Columns("run", ("x",), ("u",), "r", time="t")
    (episode,) = read_table(frame, columns)
    assert len(episode.rewards) == 3
    swapped = Frame(**frame.values | {"t": [times[1], times[0], times[2]]})
    with pytest.raises(DatasetError, match=r"t\[2\]: does not increase"):
        read_table(swapped, columns)


class Frame:
    """As much of a data frame as pandas and polars have in common."""

    def __init__(self, **columns):
        self.values, self.columns = columns, list(columns)

    def __len__(self):
        return len(self.values[self.columns[0]])

    def __getitem__(self, name):
        values = self.values[name]
        return types.SimpleNamespace(to_numpy=lambda: np.asarray(values))


def test_bad_episodes_are_dropped_on_demand_and_counted(tmp_path):
    table, head = rows(4), list(HEAD)
    table[5][head.index("x")] = ""
    table[9][head.index("r")] = "much"
    path, account = write(tmp_path / "log.csv", table, head), Account()
    with pytest.raises(DatasetError, match=r"x\[6\]: empty"):
        list(stream_labelled(path, NEXT))
    kept = list(stream_labelled(path, NEXT, account=account, drop_bad=True))
    assert [float(one.episode.observations[0, 0]) for one in kept] == [0.0, 30.0]
    assert [(one.name, one.rows) for one in account.dropped] == [("1", 4), ("2", 4)]
    assert "x[6]" in account.dropped[0].why
    assert account.rows == account.steps + account.closing + 8


def test_controllers_and_groups_are_of_episodes():
    frame = Frame(
        run=[0, 0, 1, 1], x=[0.0, 1.0, 2.0, 3.0], u=[0.5] * 4, r=[1.0] * 4,
        who=["a", "a", "b", "b"], ward=[7, 7, 7, 7],
    )  # fmt: skip
    columns = Columns("run", ("x",), ("u",), "r", controller="who", group="ward")
    assert [one[1:3] for one in stream_labelled(frame, columns)] == [("a", "7"), ("b", "7")]
    mixed = Frame(**frame.values | {"who": ["a", "b", "b", "b"]})
    with pytest.raises(DatasetError, match=r"who\[1\]: both a and b"):
        list(stream_labelled(mixed, columns))


@pytest.mark.parametrize(
    ("times", "newest"),
    [
        (None, "b"),
        ([4, 5, 1, 2], "a"),
        (["2026-11-04", "2026-11-05", "2026-11-01", "2026-11-02"], "a"),
        ([1, 2, 4, 5], "b"),
        ([0, 2, 0, 1], "b"),  # steps of each episode: the longest is not the last
    ],
)
def test_the_newest_controller_is_the_last_by_the_clock(times, newest):
    """An export may be sorted by name: the table's order is not that of time."""
    frame = Frame(
        run=[0, 0, 1, 1], x=[0.0, 1.0, 2.0, 3.0], u=[0.5] * 4, r=[1.0] * 4,
        who=["a", "a", "b", "b"], at=times or [0] * 4,
    )  # fmt: skip
    columns = Columns("run", ("x",), ("u",), "r", time="at" if times else None, controller="who")
    assert newest_of(list(stream_labelled(frame, columns))) == newest


def test_numbers_that_single_precision_cannot_hold_are_named():
    frame = Frame(run=[0] * 3, at=[1.79e9, 1.79e9 + 5, 1.79e9 + 10], u=[0.5] * 3, r=[1.0] * 3)
    episodes = read_table(frame, Columns("run", ("at",), ("u",), "r"))
    with pytest.raises(DatasetError, match=r"at: values around 1\.79e"):
        check_precision(("at",), episodes)
    moved = [e._replace(observations=e.observations - 1.79e9) for e in episodes]
    check_precision(("at",), moved)


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
    with pytest.raises(DatasetError, match=r"u\[2\]: 0.5 is not a choice"):
        read_table(tmp_path / "log.csv", columns._replace(actions=("u",)))


def put(row, column, value):
    def damage(table, head):
        table[row][head.index(column)] = value

    return damage


def swap(table, head):
    table[3], table[4] = table[4], table[3]


DAMAGES = {
    "no number": (put(5, "x", "high"), r"x\[6\]: 'high' is not a number"),
    "empty": (put(5, "u", ""), r"u\[6\]: empty"),
    "nan": (put(2, "r", "nan"), r"r\[3\]: 'nan' is not a finite number"),
    "infinite": (put(7, "logp", "-inf"), r"logp\[8\]: '-inf' is not a finite number"),
    "no episode": (put(0, "run", ""), r"run\[1\]: empty"),
    "mixed episodes": (swap, r"run\[5\]: episode 0 continues after another"),
    "time stands": (put(6, "t", 1), r"t\[7\]: does not increase"),
    "ends early": (put(5, "end", 1), r"end\[6\]: set before the last step"),
    "another next": (put(5, "nx", 99), r"next_observations\[6\]: differs from the observation"),
    "short row": (lambda table, head: table[3].pop(), r"row\[4\]: 9 entries, but the heading has"),
    "column missing": (lambda table, head: head.__setitem__(2, "z"), "x: no such column"),
    "column twice": (lambda table, head: head.__setitem__(3, "x"), "x: appears more than once"),
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


def test_shuffled_rows_are_noticed_without_a_time(tmp_path):
    """Two of twelve smooth episodes are shuffled; a log that is noise all over is let alone."""
    rng = np.random.default_rng(0)

    def table(smooth):
        for run in range(12):
            x = np.cumsum(rng.normal(size=40)) if smooth else rng.normal(size=40)
            x = rng.permutation(x) if run in (3, 7) else x
            yield from ([run, 0, v, 0, 0.1 * k, 0, -1.25, 0, 0, 0] for k, v in enumerate(x))

    columns = COLUMNS._replace(observations=("x",))
    for smooth, expected in ((True, [3, 7]), (False, [])):
        path = write(tmp_path / f"{smooth}.csv", list(table(smooth)))
        assert out_of_order(read_table(path, columns)) == expected


def test_without_pyarrow_a_table_is_read_alike(tmp_path, monkeypatch):
    """Numbers, empty closing rows, text: the same episodes by Python's own reader."""
    table = [[*row[:4], "", "", *row[6:]] if row[1] == 3 else row for row in rows()]
    path = write(tmp_path / "log.csv", table)
    fast = read_table(path, COLUMNS._replace(log_prob=None))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    slow = read_table(path, COLUMNS._replace(log_prob=None))
    assert len(fast) == len(slow) == 3
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.actions, other.actions)


def test_a_heading_that_stands_twice_is_refused_by_every_reader(tmp_path):
    table = [[i, 0.5, 9.0, 0.1, 1.0, -1.0] for i in range(3)]
    path = write(tmp_path / "log.csv", table, ["run", "x", "x", "u", "r", "logp"])
    with pytest.raises(DatasetError, match="x: appears more than once"):
        read_table(path, COLUMNS._replace(observations=("x",)))


TIMES = {
    # At 2:30 on that day many clocks were put forward.
    "no zone": ["2024-03-31T02:30:00", "2024-03-31T03:00:00"],
    "digits": ["10010100", "10010101"],
    "of a day": ["08:30:00", "08:30:01.5"],
    "zones": ["2024-03-31T02:30:00+02:00", "2024-03-31T01:00:00+00:00"],
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_do_not_depend_on_where_they_are_read(tmp_path, kind, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    table = [[0, at, 0.5, 0.1, 1.0, -1.0] for at in TIMES[kind]]
    columns = COLUMNS._replace(observations=("x",), time="t")
    for pairs, good in ((table, True), (table[::-1], False)):
        path = write(tmp_path / f"{good}.csv", pairs, ["run", "t", "x", "u", "r", "logp"])
        if good:
            assert len(read_table(path, columns)) == 1
        else:
            with pytest.raises(DatasetError, match="does not increase"):
                read_table(path, columns)
    monkeypatch.undo()
    time.tzset()


def test_an_episode_without_a_label_is_refused(tmp_path):
    table = [[0, "a", 0.5, 0.1, 1.0, -1.0], [1, "", 0.5, 0.1, 1.0, -1.0]]
    path = write(tmp_path / "log.csv", table, ["run", "who", "x", "u", "r", "logp"])
    for name in ("controller", "group"):
        columns = COLUMNS._replace(observations=("x",), **{name: "who"})
        with pytest.raises(DatasetError, match=r"who\[2\]: empty"):
            read_table(path, columns)


def test_parquet_of_few_digits_and_of_many(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    nan = float("nan")
    columns = COLUMNS._replace(observations=("x",), time="t")

    def write_one(**changes):
        content = {
            "run": pa.array([1.0, 1.0, 2.0, 2.0]),
            "t": pa.array([1, 1001, 3, 4005], pa.timestamp("ns")),
            "x": pa.array([1, 2, 3, 4], pa.float32()),
            "u": pa.array([1, nan, 1, nan], pa.float32()),  # the last rows only say where it ended
            "r": pa.array([1, nan, 1, nan], pa.float32()),
            "logp": pa.array([-1, nan, -1, nan], pa.float32()),
        }
        parquet.write_table(pa.table(content | changes), tmp_path / "log.parquet")
        return read_table(tmp_path / "log.parquet", columns)

    assert [len(episode.rewards) for episode in write_one()] == [1, 1]
    with pytest.raises(DatasetError, match=r"run\[4\]: empty"):
        write_one(run=pa.array([1.0, 1.0, 2.0, nan]))


def test_a_numbered_state_may_truly_repeat():
    """With rows after the last step a repeated state is one; without them it is not known."""

    def episode(*states):
        steps = len(states) - 1
        return Episode(np.array(states), np.zeros(steps, int), np.zeros(steps), np.zeros(steps))

    some = from_episodes([episode(0, 1, 1), episode(0, 1, 2)])
    assert np.asarray(known_transitions(some)).all()
    assert not np.asarray(known_transitions(from_episodes([episode(0, 1, 1)] * 3)))[:, 1].any()
