"""Check whether a log is fit to learn from; every problem has a grade and a fix.

Fatal: training would fail or its result mean nothing. Warning: it will run, and the problem limits
what it can show. Note: worth knowing.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gamps import evaluation
from gamps.datasets import Labels
from gamps.errors import UnfitLogError
from gamps.learner import Settings
from gamps.models import Quality
from gamps.policies import Policy, log_probs
from gamps.runs.log_truth import drifts, false_densities
from gamps.tasks import Task
from gamps.trajectories import Trajectories, known_transitions

FATAL, WARNING, NOTE = "fatal", "warning", "note"
# Cost of the default on Swimmer logs and two cores (`benchmarks/cost.py`): megabytes in total and
# per thousand transitions, seconds of fitting and compiling, and seconds per iteration.
MEGABYTES, MEGABYTES_MORE, SECONDS, SECONDS_MORE = 720, 2.2, 30, 0.15
SAME_REWARD = 0.99  # R² from which computed and logged rewards count as the same
COPIES = 1.5  # copies of a padded log in memory while it is read


class Finding(NamedTuple):
    """One thing that was checked.

    Attributes:
      grade: fatal, warning or note.
      what: what was checked.
      found: what the log shows.
      fix: what to do about it; empty if nothing needs to be done.
    """

    grade: str
    what: str
    found: str
    fix: str = ""


def inspect(
    log: Trajectories,
    task: Task | None = None,
    policy: Policy | None = None,
    *,
    densities: str = "known",
    discount: float | None = None,
    outcomes: Quality | None = None,
    labels: Labels = Labels(),  # noqa: B008
) -> list[Finding]:
    """Check everything that can be checked about a log before training.

    Args:
      log: validated.
      task: the known reward and termination, compared with the logged ones; None skips that.
      policy: the policy to train, as it starts; None skips what depends on it.
      densities: known, or estimated.
      discount: the discount that the log was made for, compared with the task's.
      outcomes: how well reward and termination can be predicted, if no task is known.
      labels: names of columns and controllers.

    Returns:
      Problems and notes, the most serious first.
    """
    found = [
        *_size(log, densities),
        *_controllers(log, labels),
        *_columns(log, labels),
        *_duplicates(log),
        *_densities(log),
        *(() if densities == "estimated" else _truth(log, labels, policy)),
        *(() if task is None else _task(log, task)),
        *(() if task is None or discount is None else _discount(task, discount)),
        *(() if outcomes is None else estimated_task(outcomes)),
        *(() if policy is None else _support(log, policy)),
        *_cost(log),
    ]
    return sorted(found, key=lambda f: (FATAL, WARNING, NOTE).index(f.grade))


def refuse_unfit(found: list[Finding]) -> None:
    """Raise the first fatal problem.

    Raises:
      UnfitLogError: if there is one.
    """
    for problem in found:
        if problem.grade == FATAL:
            raise UnfitLogError(problem.what, problem.found, problem.fix)


def _size(log: Trajectories, densities: str) -> Iterator[Finding]:
    n, lengths = log.n_trajectories, np.asarray(log.lengths)
    least, most = lengths.min(), lengths.max()
    each = f"{least}" if least == most else f"{least} to {most}"
    yield Finding(
        NOTE,
        "size",
        f"{n} episodes, {int(lengths.sum())} steps, {each} per episode, "
        f"{int(np.asarray(log.terminated).sum())} ended by the environment",
    )
    if unflagged := unflagged_ends(log):
        fix = "Import it again with --done, or --timeout; if all were cut off, this is right"
        yield Finding(WARNING, "ends", unflagged, fix)
    spaces = [
        f"{name} {list(getattr(log, name).shape[2:])} {getattr(log, name).dtype}"
        for name in ("observations", "actions")
    ]
    yield Finding(NOTE, "spaces", ", ".join(spaces))
    if n < 10:
        grade = FATAL if n < 7 else WARNING
        yield Finding(grade, "episodes", f"only {n}", "Log more: half are held out to judge by")
    if densities == "estimated":
        fix = "Log the density of every action when it is drawn"
        yield Finding(WARNING, "densities", "estimated from the actions, not logged", fix)


def unflagged_ends(log: Trajectories) -> str:
    """Say what it means if episodes of different lengths all count as cut off; empty if not so."""
    lengths = np.asarray(log.lengths)
    if lengths.min() == lengths.max() or bool(np.asarray(log.terminated).any()):
        return ""
    return (
        f"episodes of {lengths.min()} to {lengths.max()} steps, none marked as ended: all count as "
        "cut off, as if they had gone on like the others"
    )


def _controllers(log: Trajectories, labels: Labels) -> Iterator[Finding]:
    """Yield a note per controller: its undiscounted return and its mean log-density."""
    controllers = np.asarray(labels.controllers)
    rewards, mask = np.asarray(log.rewards, np.float64), np.asarray(log.mask)
    for name in dict.fromkeys(labels.controllers):
        rows = controllers == name
        earned = np.where(mask[rows], rewards[rows], 0.0).sum(axis=1)
        error = earned.std(ddof=1) / np.sqrt(len(earned)) if len(earned) > 1 else np.nan
        found = f"{rows.sum()} episodes, return {earned.mean():.4g} ± {error:.2g}"
        density = np.asarray(log.behaviour_log_prob)[rows][mask[rows]].mean()
        last = ", the newest" if name == labels.newest else ""
        yield Finding(NOTE, f"controller {name}", f"{found}, mean log-density {density:.3g}{last}")


def _name(kind: str, j: int, names: tuple[str, ...]) -> str:
    return names[j] if j < len(names) else f"{kind}[{j}]"


def _columns(log: Trajectories, labels: Labels) -> Iterator[Finding]:
    mask = np.asarray(log.mask)
    for name, values in (("observations", log.states), ("actions", log.actions)):
        array = np.asarray(values)[mask].reshape(int(mask.sum()), -1)
        if array.dtype.kind != "f":
            continue
        for j in np.flatnonzero(array.std(axis=0) == 0):
            fix = "Drop it: a constant teaches nothing"
            grade = WARNING if name == "observations" else FATAL
            if name == "actions":
                fix = "Log a stochastic policy: without noise there is no density"
            column = _name(name, int(j), getattr(labels, name))
            yield Finding(grade, column, f"constant, {array[0, j]:.4g}", fix)
        spread = array.std(axis=0)
        wide = spread.max() / max(spread[spread > 0].min(initial=np.inf), 1e-300)
        if np.isfinite(wide) and wide > 1e4:
            fix = "Rescale them to similar units"
            yield Finding(WARNING, name, f"scales differ by {wide:.1g}", fix)


def _duplicates(log: Trajectories) -> Iterator[Finding]:
    if log.states.dtype.kind == "i":
        return  # short episodes of few states repeat by chance
    seen: dict[bytes, int] = {}
    arrays = [np.asarray(x) for x in (log.observations, log.actions)]
    pairs = []
    for i in range(log.n_trajectories):
        content = b"".join(array[i].tobytes() for array in arrays)
        if content in seen:
            pairs.append((seen[content], i))
        seen.setdefault(content, i)
    if pairs:
        first = f"episode {pairs[0][1]} repeats episode {pairs[0][0]}"
        fix = "Drop the copies: they count as evidence that is not there"
        yield Finding(WARNING, "duplicates", f"{len(pairs)}: {first}", fix)


def _densities(log: Trajectories) -> Iterator[Finding]:
    values = np.asarray(log.behaviour_log_prob)[np.asarray(log.mask)]
    found = f"{values.min():.4g} to {values.max():.4g}, mean {values.mean():.4g}"
    if log.actions.dtype.kind == "i" and values.max() > 1e-5:
        fix = "A choice has a probability of at most one: log its logarithm"
        yield Finding(FATAL, "log-densities", found, fix)
        return
    yield Finding(NOTE, "log-densities", found)
    if values.std() == 0 and log.actions.dtype.kind == "f":
        fix = "A normal density differs from draw to draw; log each action's own"
        yield Finding(FATAL, "log-densities", "the same for every action", fix)


def _truth(log: Trajectories, labels: Labels, policy: Policy | None) -> Iterator[Finding]:
    fix = "Find out who drew these actions, and log that density: everything rests on it"
    refuted = list(false_densities(log, labels, policy))
    for found, by_much in refuted:
        yield Finding(FATAL if by_much else WARNING, "log-densities", f"wrong for {found}", fix)
    if not refuted:
        yield Finding(NOTE, "log-densities", "consistent with the logged actions")
    fix = "Judge by episodes like future ones: import only the later part, or name controllers"
    for found in drifts(log, labels):
        yield Finding(WARNING, "drift", f"in {found}", fix)


def _task(log: Trajectories, task: Task) -> Iterator[Finding]:
    try:
        rewards, ends = _known(log, task)
        for name, values in (("reward", rewards), ("terminal", ends)):
            if values.shape != log.mask.shape:
                raise TypeError(f"{name} gives {values.shape[2:]} per step, not one number")
    except Exception as error:  # a user's function may fail in any way
        fix = "It must accept one observation, one action and the next observation, as JAX arrays"
        yield Finding(FATAL, "task", _said(error), fix)
        return
    mask = np.asarray(known_transitions(log))
    if (left := int(log.mask.sum()) - int(mask.sum())) > 0:
        yield Finding(NOTE, "task", f"not compared in {left} last steps: where did they lead?")
    if not mask.any():
        return
    known, logged = np.asarray(rewards)[mask], np.asarray(log.rewards)[mask]
    if not np.isfinite(known).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(np.asarray(rewards)) & mask)[0])
        yield Finding(FATAL, "reward", f"not finite at {place}", "Fix the reward function")
        return
    off = np.abs(known - logged)
    worst = np.argwhere(mask)[int(off.argmax())]
    r2 = 1 - np.mean((known - logged) ** 2) / max(logged.var(), 1e-12)
    found = f"R² {r2:.4f}; largest difference {off.max():.2g}, in episode {worst[0]}, "
    found += f"step {worst[1]}"
    if r2 < SAME_REWARD:
        found += f": {known[off.argmax()]:.4g} computed, {logged[off.argmax()]:.4g} logged"
    if logged.std() == 0 and off.max() <= 1e-5 * (1 + abs(logged[0])):
        yield Finding(
            WARNING, "reward", f"constant, {logged[0]:.4g}", "Only ends can be learned from"
        )
    elif r2 < 0.5:
        fix = "The task's reward is not the logged one: fix the function or the units"
        yield Finding(FATAL, "reward", found, fix)
    elif r2 < SAME_REWARD:
        yield Finding(WARNING, "reward", found, "Look at the worst step: what does it miss?")
    else:
        yield Finding(NOTE, "reward", found)
    ended = np.asarray(ends) & mask
    last = np.arange(mask.shape[1]) == np.asarray(log.lengths)[:, None] - 1
    logged_end = last & mask & np.asarray(log.terminated)[:, None]
    differ = ended != logged_end
    if differ.any():
        place = tuple(int(i) for i in np.argwhere(differ)[0])
        by = "the task's terminal" if ended[place] else "the log"
        share = differ.any(axis=1).mean()
        grade = FATAL if share > 0.1 else WARNING
        found = f"differs in {share:.0%} of the episodes; at {place} only {by} ends the episode"
        yield Finding(grade, "termination", found, "Fix terminal, or the log's flags")
    else:
        yield Finding(NOTE, "termination", "the task agrees with the log")


def estimated_task(quality: Quality) -> list[Finding]:
    """Grade a reward and a termination that were fitted to the log."""
    found, more = f"estimated, held-out R² {quality.reward:.3f}", "Log what the reward depends on"
    grade = WARNING if quality.reward < 0.9 else NOTE
    rows = [Finding(grade, "reward", found, "" if grade == NOTE else f"{more}, or give --task")]
    if quality.ends is None:
        return [*rows, Finding(NOTE, "termination", "the log shows none")]
    told = f"estimated, recognises {quality.ends:.0%} of held-out ends"
    told += f", and takes {quality.false_ends:.1%} of other steps for ends"
    grade = WARNING if quality.ends < 0.9 or quality.false_ends > 0.02 else NOTE
    fix = "" if grade == NOTE else "Log what an end depends on, or give --task"
    return [*rows, Finding(grade, "termination", told, fix)]


def _discount(task: Task, logged: float) -> Iterator[Finding]:
    if abs(float(task.discount) - logged) > 1e-6:
        found = f"{float(task.discount):g} in the task, {logged:g} in the log"
        yield Finding(NOTE, "discount", f"{found}: gamps uses the task's discount")


def _said(error: Exception) -> str:
    """Return the first line; the rest is about JAX's own source."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


@eqx.filter_jit
def _known(log: Trajectories, task: Task) -> tuple[Any, Any]:
    def one(function: Any) -> Any:
        return jax.vmap(jax.vmap(function))(log.states, log.actions, log.next_states)

    return one(task.reward), one(task.terminal)


def _support(log: Trajectories, policy: Policy) -> Iterator[Finding]:
    try:
        own = np.asarray(eqx.filter_jit(log_probs)(policy, log))
    except Exception as error:  # a user's policy may fail in any way
        fix = "It must accept the log's observations and actions"
        yield Finding(FATAL, "policy", _said(error), fix)
        return
    if not np.isfinite(own[np.asarray(log.mask)]).all():
        yield Finding(FATAL, "policy", "gives a logged action no density", "Start nearer the log's")
        return
    ess, k, _ = evaluation.support(policy, log)
    start = "the logging policy" if ess > log.n_trajectories - 0.05 else "another policy"
    found = f"training starts from {start}; {round(ess, 1):g} of {log.n_trajectories} episodes "
    found += "count as evidence about it. Pareto-k, an index that exceeds 0.7 if a few episodes "
    found += f"outweigh all others, is {k:.2f}"
    if ess < 0.1 * log.n_trajectories or (np.isfinite(k) and k > 0.7):
        fix = "The policy to train starts far from the logging policy: use --policy behaviour"
        yield Finding(WARNING, "support", found, fix)
    else:
        yield Finding(NOTE, "support", found)


def _cost(log: Trajectories) -> Iterator[Finding]:
    thousands = int(jnp.sum(log.mask)) / 1_000
    width = sum(math.prod(x.shape[2:]) for x in (log.observations, log.actions)) + 3
    held = COPIES * 4e-6 * width * (log.mask.size - 1_000 * thousands)  # of padding
    memory = (MEGABYTES + MEGABYTES_MORE * thousands + held) / 1_000
    iterations = Settings().iterations
    seconds = SECONDS + SECONDS_MORE * iterations
    time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    found = f"training needs about {memory:.1f} GB and {time} ({iterations} iterations)"
    yield Finding(NOTE, "cost", found)
