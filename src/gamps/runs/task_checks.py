"""Check a task against a log: its reward and termination, computed or estimated, and discount."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from gamps.models import Quality
from gamps.runs.findings import FATAL, NOTE, WARNING, Finding, first_line
from gamps.tasks import Task
from gamps.trajectories import Trajectories, known_transitions

SAME_REWARD = 0.99  # R² from which computed and logged rewards count as the same


def known_task(log: Trajectories, task: Task) -> Iterator[Finding]:
    """Compare the rewards and ends that a task computes with those of the log."""
    try:
        rewards, ends = _known(log, task)
        for name, values in (("reward", rewards), ("terminal", ends)):
            if values.shape != log.mask.shape:
                raise TypeError(f"{name} gives {values.shape[2:]} per step, not one number")
    except Exception as error:  # a user's function may fail in any way
        fix = "It must accept one observation, one action and the next observation, as JAX arrays"
        yield Finding(FATAL, "task", first_line(error), fix)
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


def known_discount(task: Task, logged: float) -> Iterator[Finding]:
    """Compare a task's discount with the one that the log was made for."""
    if abs(float(task.discount) - logged) > 1e-6:
        found = f"{float(task.discount):g} in the task, {logged:g} in the log"
        yield Finding(NOTE, "discount", f"{found}: gamps uses the task's discount")


@eqx.filter_jit
def _known(log: Trajectories, task: Task) -> tuple[Any, Any]:
    def one(function: Any) -> Any:
        return jax.vmap(jax.vmap(function))(log.states, log.actions, log.next_states)

    return one(task.reward), one(task.terminal)
