"""The logged data: padded `[N, T]` arrays with a mask, and their validation.

Per-trajectory functions elsewhere are written for one row, without the leading `N`; their callers
apply `jax.vmap`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from gamps.errors import SettingError, TrajectoryError

LEFT = 4e-5  # a reward does not count once discounting has left this share of it
BLOCK = 1024  # the number of real steps is rounded up to a multiple of this


class Episode(NamedTuple):
    """One logged episode of `T` steps, as NumPy arrays or lists.

    Attributes:
      observations: `[T + 1, ...]`; the last one is where the episode ended.
      actions: `[T, ...]`, as the policy drew them, before any clipping by the environment.
      rewards: `[T]`.
      behaviour_log_prob: `[T]`, log-density of each action under the logging policy; None until it
        is known.
      terminated: True if the environment ended the episode, False if it was cut off.
    """

    observations: Any
    actions: Any
    rewards: Any
    behaviour_log_prob: Any
    terminated: bool = False


class Trajectories(eqx.Module):
    """`N` logged trajectories, padded to `T` steps.

    Attributes:
      observations: `[N, T + 1, ...]`; padding repeats the last observation.
      actions: `[N, T, ...]`; padding repeats the last action, so that densities stay finite.
      rewards: `[N, T]`, zero where padded.
      behaviour_log_prob: `[N, T]`, zero where padded.
      mask: `[N, T]`, True on real steps; each row is a run of True followed by False.
      terminated: `[N]`, whether the environment ended the episode.
      before: number of real steps of a larger log that come before this part; None for a whole
        log. It keeps a step's noise the same however the log is sharded.
    """

    observations: Shaped[Array, "*N T_plus_1 ..."]
    actions: Shaped[Array, "*N T ..."]
    rewards: Float[Array, "*N T"]
    behaviour_log_prob: Float[Array, "*N T"]
    mask: Bool[Array, "*N T"]
    terminated: Bool[Array, "*N"]
    before: Int[Array, "*seeds"] | None = None

    @property
    def n_trajectories(self) -> int:
        """`N`."""
        return int(self.mask.shape[0])

    @property
    def n_steps(self) -> int:
        """`T`, padding included."""
        return int(self.mask.shape[-1])

    @property
    def lengths(self) -> Shaped[Array, "*N"]:
        """Number of steps in each trajectory, padding excluded."""
        return jnp.sum(self.mask, axis=-1)

    @property
    def states(self) -> Shaped[Array, "*N T ..."]:
        """The observation before each step."""
        return self.observations[(slice(None),) * (self.mask.ndim - 1) + (slice(None, -1),)]

    @property
    def next_states(self) -> Shaped[Array, "*N T ..."]:
        """The observation after each step."""
        return self.observations[(slice(None),) * (self.mask.ndim - 1) + (slice(1, None),)]


def flat(values: Shaped[Array, "N T ..."]) -> Shaped[Array, "NT ..."]:
    """Join all trajectories into one array with a row per step, padding included."""
    return values.reshape(-1, *values.shape[2:])


def real_steps(trajectories: Trajectories) -> Int[Array, "M"]:
    """Indices of real steps in `flat` arrays, found on the host: padding then costs nothing.

    The last index is repeated up to whole blocks, so that logs of similar size share programs.
    """
    places = np.flatnonzero(np.asarray(trajectories.mask))
    if len(places) == trajectories.mask.size:
        return jnp.asarray(places)
    return jnp.asarray(np.pad(places, (0, -len(places) % BLOCK), mode="edge"))


def returns_of(trajectories: Trajectories, discount: float) -> Float[np.ndarray, "N"]:
    """Discounted return of each episode."""
    rewards = np.where(
        np.asarray(trajectories.mask), np.asarray(trajectories.rewards, np.float64), 0.0
    )
    return np.asarray(rewards @ discount ** np.arange(trajectories.n_steps))


def step_limit(trajectories: Trajectories) -> int | None:
    """After how many steps episodes were cut off; None if none was, or not all alike."""
    cut_off = np.unique(trajectories.lengths[~np.asarray(trajectories.terminated)])
    return int(cut_off[0]) if len(cut_off) == 1 else None


def counted_steps(steps: int, discount: float) -> int:
    """How many of an episode's first steps its discounted return depends on.

    Examples:
      >>> counted_steps(1_000, 0.99), counted_steps(10_000, 0.99), counted_steps(10_000, 1.0)
      (1000, 1008, 10000)
    """
    return steps if discount >= 1 else min(steps, math.ceil(math.log(LEFT) / math.log(discount)))


def first_steps(trajectories: Trajectories, steps: int) -> Trajectories:
    """Cut episodes to their first `steps` steps; a cut episode is not `terminated`."""
    if trajectories.n_steps <= steps:
        return trajectories
    ended = trajectories.terminated & (trajectories.lengths <= steps)
    cut = _by_step(trajectories, lambda name, x: x[:, : steps + (name == "observations")])
    return dataclasses.replace(cut, terminated=ended)


def padded(trajectories: Trajectories, steps: int) -> Trajectories:
    """The same episodes, padded to at least `steps` steps."""
    return _moved(trajectories, 0, max(steps - trajectories.n_steps, 0))


def in_pieces(trajectories: Trajectories, steps: int) -> Trajectories:
    """Split longer episodes into separate ones of at most `steps` steps.

    For learning: otherwise one long episode would pad all others to its length.
    """
    if trajectories.n_steps <= steps:
        return trajectories
    parts, lengths = [], np.asarray(trajectories.lengths)
    for start in range(0, int(lengths.max()), steps):
        rows = np.flatnonzero(lengths > start)
        later: Trajectories = jax.tree.map(lambda x, rows=rows: x[rows], trajectories)
        parts.append(first_steps(_moved(later, start, start), steps))
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def _moved(trajectories: Trajectories, start: int, more: int) -> Trajectories:
    """Rows from step `start` on, followed by `more` steps of padding."""

    def one(name: str, values: Any) -> Any:
        tail = jnp.repeat(values[:, -1:], more, axis=1)
        repeated = name in ("observations", "actions")  # so that densities stay finite
        tail = tail if repeated else jnp.zeros_like(tail)
        return jnp.concatenate([values[:, start:], tail], axis=1)

    return _by_step(trajectories, one) if more else trajectories


def _by_step(trajectories: Trajectories, change: Callable[[str, Any], Any]) -> Trajectories:
    """Apply a change to every array that has one entry per step."""
    names = ("observations", "actions", "rewards", "behaviour_log_prob", "mask")
    changed = {name: change(name, getattr(trajectories, name)) for name in names}
    return dataclasses.replace(trajectories, **changed)


def known_transitions(trajectories: Trajectories) -> Bool[Array, "N T"]:
    """Real steps, except last steps whose next observation repeats the one before.

    A table without a row after the last step is stored this way: nobody saw where that step led.
    Transition models leave these steps out. A numbered state may truly repeat: there it counts as
    unknown only if nearly all episodes end this way.
    """
    ends = jnp.arange(trajectories.n_steps) == trajectories.lengths[:, None] - 1
    same = trajectories.states == trajectories.next_states
    unknown = ends & same.reshape(*trajectories.mask.shape, -1).all(axis=-1)
    if trajectories.states.dtype.kind == "i":
        unknown &= unknown.any(axis=1).mean() > 0.9
    return trajectories.mask & ~unknown


def from_episodes(episodes: Sequence[Episode], *, length: int | None = None) -> Trajectories:
    """Pad episodes of different lengths into one validated container.

    Args:
      episodes: at least one episode of at least one step.
      length: `T` to pad to; the longest episode by default. Logs of equal `length` share one
        compilation.

    Raises:
      TrajectoryError: names the field, the episode and the step that cannot be used.

    Examples:
      >>> trajectories = from_episodes(
      ...     [
      ...         Episode([0, 1, 2], [1, 1], [0.0, 1.0], [-0.7, -0.7], terminated=True),
      ...         Episode([0, 0], [0], [0.0], [-0.7]),
      ...     ]
      ... )
      >>> trajectories.mask.tolist()
      [[True, True], [True, False]]
    """
    if not episodes:
        raise TrajectoryError("episodes", "the list is empty", "Pass at least one Episode")
    for i, episode in enumerate(episodes):
        if episode.behaviour_log_prob is None:
            fix = "Log them, or estimate the logging policy: gamps.policies.estimation.estimate"
            raise TrajectoryError("behaviour_log_prob", "missing", fix, index=i)
    rows = [Episode._make(map(np.asarray, episode)) for episode in episodes]
    for i, row in enumerate(rows):
        _check_lengths(i, row, rows[0])
    longest = max(len(row.rewards) for row in rows)
    length = longest if length is None else length
    if length < longest:
        raise TrajectoryError(
            "length", f"{length} is shorter than an episode of {longest} steps", "Pass a larger one"
        )

    def filled(name: str, *, repeat: bool = False) -> Array:
        """Copy the rows into one array of JAX's default precision."""
        kinds = {getattr(row, name).dtype.kind for row in rows}
        kind = jnp.result_type(float if "f" in kinds or not repeat else int)
        size = length + (name == "observations")
        array = np.zeros((len(rows), size, *getattr(rows[0], name).shape[1:]), kind)
        for i, row in enumerate(rows):
            values = getattr(row, name)
            array[i, : len(values)] = values
            if repeat:
                array[i, len(values) :] = values[-1]
        return jnp.asarray(array)

    steps = np.asarray([len(row.rewards) for row in rows])
    return validate(
        Trajectories(
            observations=filled("observations", repeat=True),
            actions=filled("actions", repeat=True),
            rewards=filled("rewards"),
            behaviour_log_prob=filled("behaviour_log_prob"),
            mask=jnp.asarray(np.arange(length) < steps[:, None]),
            terminated=jnp.asarray([bool(row.terminated) for row in rows]),
        )
    )


def split(
    trajectories: Trajectories, held_out: float = 0.5, *, seed: int = 0
) -> tuple[Trajectories, Trajectories]:
    """Split a log in two: episodes to learn from, and held-out episodes that learning never sees.

    Args:
      trajectories: the log.
      held_out: share of its episodes to hold out; at least three episodes are held out.
      seed: seed of the random split.

    Raises:
      SettingError: if the share is not between 0 and 1, or leaves fewer than five to learn from.
    """
    parts = split_rows(trajectories.n_trajectories, held_out, seed)
    learned, unseen = (episodes_of(trajectories, rows) for rows in parts)
    return learned, unseen


def episodes_of(trajectories: Trajectories, rows: np.ndarray) -> Trajectories:
    """Select episodes, padded to the longest of them."""
    chosen: Trajectories = jax.tree.map(lambda x: x[rows], trajectories)
    return first_steps(chosen, int(np.asarray(chosen.mask).sum(axis=1).max()))


def split_rows(n: int, held_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of `n` episodes `split` leaves to learn from, and which it holds out."""
    if not 0 < held_out < 1:
        raise SettingError("held_out", f"{held_out}", "Choose a share between 0 and 1")
    count = max(math.ceil(held_out * n), 3)
    if n - count < 5:
        problem = f"{n} episodes, of which {count} are held out"
        raise SettingError("log", problem, "Log more episodes: learning needs at least five")
    order = np.asarray(jax.random.permutation(jax.random.key(seed), n))
    return np.sort(order[count:]), np.sort(order[:count])


def validate(trajectories: Trajectories) -> Trajectories:
    """Check shapes and values on the host, before anything is compiled; returns the same object.

    Raises:
      TrajectoryError: names the first field, trajectory and step that cannot be used.
    """
    mask = np.asarray(trajectories.mask)
    _check_shapes(trajectories, mask)
    lengths = mask.sum(axis=1)
    if (empty := np.flatnonzero(lengths == 0)).size:
        raise TrajectoryError(
            "mask", "a trajectory without steps", "Drop empty episodes", index=int(empty[0])
        )
    broken = np.flatnonzero((np.arange(mask.shape[1]) < lengths[:, None]).__ne__(mask).any(axis=1))
    if broken.size:
        raise TrajectoryError(
            "mask",
            "False before True",
            "Real steps must come first: mask = arange(T) < length",
            index=int(broken[0]),
        )
    observed = np.concatenate([np.ones_like(mask[:, :1]), mask], axis=1)
    _check_finite("observations", trajectories.observations, observed)
    _check_finite("actions", trajectories.actions, mask)
    _check_finite("rewards", trajectories.rewards, mask)
    zero = np.argwhere((np.asarray(trajectories.behaviour_log_prob) == -np.inf) & mask)
    if zero.size:
        raise TrajectoryError(
            "behaviour_log_prob",
            "-inf: the logging policy could not have drawn this action",
            "Log the action before clipping, with the density of the policy that drew it",
            index=tuple(map(int, zero[0])),
        )
    _check_finite("behaviour_log_prob", trajectories.behaviour_log_prob, mask)
    return trajectories


def _check_lengths(i: int, row: Episode, first: Episode) -> None:
    for name in ("observations", "actions", "rewards", "behaviour_log_prob"):
        values = getattr(row, name)
        if values.dtype.kind not in "fiub":
            raise TrajectoryError(
                name, f"dtype {values.dtype} is not numeric", "Pass a rectangular array", index=i
            )
        if values.ndim == 0:
            raise TrajectoryError(name, "a scalar", "Pass one value per step", index=i)
    steps = len(row.rewards)
    if steps == 0:
        raise TrajectoryError("rewards", "an episode without steps", "Drop it", index=i)
    for name, expected in (
        ("observations", steps + 1),
        ("actions", steps),
        ("behaviour_log_prob", steps),
    ):
        values = getattr(row, name)
        if len(values) != expected:
            raise TrajectoryError(
                name,
                f"{len(values)} entries for {steps} rewards",
                f"Expected {expected}: one more observation than rewards, the rest as many",
                index=i,
            )
        if values.shape[1:] != getattr(first, name).shape[1:]:
            raise TrajectoryError(
                name,
                f"{values.shape[1:]} per step, but {getattr(first, name).shape[1:]} in episode 0",
                "All episodes must share one space",
                index=i,
            )
    for name in ("rewards", "behaviour_log_prob"):
        if getattr(row, name).ndim != 1:
            raise TrajectoryError(
                name, f"shape {getattr(row, name).shape}", "Expected one number per step", index=i
            )


def _check_shapes(trajectories: Trajectories, mask: np.ndarray) -> None:
    if mask.ndim != 2:
        raise TrajectoryError("mask", f"shape {mask.shape}", "Expected [N, T]")
    n, steps = mask.shape
    expected = {
        "observations": (n, steps + 1),
        "actions": (n, steps),
        "rewards": (n, steps),
        "behaviour_log_prob": (n, steps),
        "terminated": (n,),
    }
    for name, shape in expected.items():
        actual = getattr(trajectories, name).shape
        if actual[: len(shape)] != shape:
            raise TrajectoryError(
                name, f"shape {actual}", f"Expected {shape} first: the mask has {mask.shape}"
            )


def _check_finite(name: str, values: jax.Array, where: np.ndarray) -> None:
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return
    bad = ~np.isfinite(array)
    bad &= where.reshape(where.shape + (1,) * (array.ndim - where.ndim))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise TrajectoryError(
            name, f"{array[place]} is not finite", "Fix or drop this episode", index=place
        )
