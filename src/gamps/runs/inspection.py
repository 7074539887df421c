"""Check whether a log is fit to learn from; every problem has a grade and a fix."""

import math
from collections.abc import Iterator

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from gamps import evaluation
from gamps.datasets import Labels
from gamps.errors import UnfitLogError
from gamps.learner import Settings
from gamps.models import Quality
from gamps.policies import Policy, log_probs
from gamps.runs.findings import FATAL, NOTE, WARNING, Finding, first_line
from gamps.runs.log_truth import drifts, false_densities
from gamps.runs.task_checks import estimated_task, known_discount, known_task
from gamps.tasks import Task
from gamps.trajectories import Trajectories

# Cost of the default on Swimmer logs and two cores (`benchmarks/cost.py`): megabytes in total and
# per thousand transitions, seconds of fitting and compiling, and seconds per iteration.
MEGABYTES, MEGABYTES_MORE, SECONDS, SECONDS_MORE = 720, 2.2, 30, 0.15
COPIES = 1.5  # copies of a padded log in memory while it is read


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
        *(() if task is None else known_task(log, task)),
        *(() if task is None or discount is None else known_discount(task, discount)),
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


def _support(log: Trajectories, policy: Policy) -> Iterator[Finding]:
    try:
        own = np.asarray(eqx.filter_jit(log_probs)(policy, log))
    except Exception as error:  # a user's policy may fail in any way
        fix = "It must accept the log's observations and actions"
        yield Finding(FATAL, "policy", first_line(error), fix)
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
