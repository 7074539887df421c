"""What can be vouched for: from a log through training to a certificate, beside the truth."""

import json
import sys
from collections.abc import Callable
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.studies.false_deploys import limits
from benchmarks.studies.judging import exact, probabilities
from gamps import __version__, datasets, evaluation
from gamps._utils import console, figures
from gamps.datasets.simulation import groups_of, simulate
from gamps.datasets.streams import bucket_of
from gamps.envs import Minigolf, TwoTanks, collect, pendulum, tanks
from gamps.envs.minigolf import HORIZON
from gamps.envs.two_areas import TwoAreas, two_areas
from gamps.evaluation import DEPLOY
from gamps.paper.cells import fresh_folder, run_cells
from gamps.policies import Policy, between
from gamps.runs.build import build
from gamps.runs.resolve import task_of
from gamps.runs.spec import TrainSpec
from gamps.trajectories import Trajectories, padded

FRESH, TIMES = 20_000, 2  # episodes that stand for the truth, the same for every policy
SIMULATED = 200  # the same of a simulator
PARTS = 3  # fresh held-out parts that judge each training
HALF, FIFTH = 0.5, 0.2  # shares held out: by default, and by default in 0.1.0
CASES = (
    "minigolf-100", "minigolf-400", "minigolf-1000", "minigolf-4000",
    "tanks30-100", "tanks30-400", "tanks30-1000", "tanks60-100", "tanks60-400", "tanks60-1000",
    "pendulum-100", "pendulum-400", "gridworld-250", "gridworld-1000",
)  # fmt: skip
LADDERS = ("ladder", "noise alone", "markov")
TOGETHER = 4  # logs whose programs are kept
HERE = "benchmarks.studies.certificate"


class Setting(NamedTuple):
    """A problem as a user would have it.

    Attributes:
      env: functional, or the id of a simulator.
      behaviour: the logging policy.
      steps: of an episode, at most.
      task: as `gamps train --task` names it.
      features: as `--features` names them.
      recipe: as `--recipe` names it.
    """

    env: Any
    behaviour: Policy
    steps: int
    task: str
    features: str = ""
    recipe: str = "default"


def golf_features(observation: Any, action: Any) -> Any:
    """Of minigolf's model."""
    return Minigolf().model_features(observation, action)


def grid_task() -> Any:
    """Of the gridworld."""
    return two_areas("plain").task()


@cache
def setting(name: str) -> Setting:
    """By its name: minigolf, tanks30, tanks60, pendulum, gridworld."""
    if name == "minigolf":
        golf = Minigolf()
        known = ("gamps.envs.minigolf:task", f"{HERE}:golf_features")
        return Setting(golf, golf.policy(), HORIZON, *known)
    if name.startswith("tanks"):
        known = ("gamps.envs.tanks:task", "gamps.envs.tanks:clipped")
        return Setting(TwoTanks(), tanks.policy(), int(name[5:]), *known)
    if name == "pendulum":
        known = ("gamps.envs.pendulum:task", "gamps.envs.pendulum:clipped")
        return Setting(pendulum.ID, pendulum.policy(), pendulum.HORIZON, *known)
    grid = two_areas("plain")
    behaviour = grid.behaviour(jax.random.key(0))
    return Setting(grid, behaviour, grid.layout.horizon, f"{HERE}:grid_task", recipe="pgt")


def certificate(
    *,
    logs: int = 20,
    cases: tuple[str, ...] = CASES,
    iterations: int = 80,
    first: int = 0,
    earlier: Path | None = None,
    out: Path = Path("runs/certificate"),
    workers: int = 2,
    quick: bool = False,
    overwrite: bool = False,
) -> None:
    """How often a policy is certified, and what it is truly worth.

    Of every log one half is learned from, as gamps train does it; the ladder that it ends with is
    judged by three fresh held-out parts, as gamps evaluate does it, with and without --assume
    markov. Beside the truth of what is deployed stands that of the learned policy, that of a
    training on four fifths of the log, as version 0.1.0 held out a fifth, and the same ladder with
    the mean unchanged: what noise alone is worth.

    Example: python -m benchmarks.studies.certificate --logs 2 --cases tanks30-100

    Args:
      logs: of each case.
      cases: minigolf, tanks30, tanks60, pendulum or gridworld, and the episodes of a log.
      iterations: of a training.
      first: seed of the first log.
      earlier: a certificate.json whose other cases are added to the table.
      out: folder for certificate.json and certificate.png; finished cells are kept in it.
      workers: processes.
      quick: two logs of 100 episodes of tanks30, eight iterations each.
      overwrite: replace an earlier result in the same folder.
    """
    if quick:
        logs, cases, iterations = 2, ("tanks30-100",), 8
    out = fresh_folder(out, "certificate", overwrite=overwrite)
    found = by_case(
        cell, "certificate", cases, range(first, first + logs), iterations, out, workers
    )
    rows = {
        case: {name: _row(of, name) for name in LADDERS} | {"learner": __version__}
        for case, of in found.items()
    }
    if earlier is not None:
        known = json.loads(earlier.read_text(encoding="utf-8"))["results"]
        rows = {case: row for case in CASES if (row := rows.get(case, known.get(case)))}
    table = console.rich_table(
        f"Certificates at 95%, judged by {PARTS} fresh held-out parts of each log",
        ["", "deploy", "true gain", "bound", "of learned", "of four fifths'", "noise alone",
         "beyond it", "bounds above the truth", "markov: deploy", "of four fifths'", "above"],
        caption="Gains are means over judgements, nothing where nothing is deployed; ± standard "
        "errors over logs. Above the truth: judgements with any such bound; 95% limits by "
        "the first judgement of each log.",
    )  # fmt: skip
    for name, row in rows.items():
        one, noise = row["ladder"], row["noise alone"]
        beyond = np.asarray(one["by_log"]) - np.asarray(noise["by_log"])
        error = beyond.std(ddof=1) / np.sqrt(len(beyond)) if len(beyond) > 1 else np.nan
        table.add_row(
            name, f"{one['deploys']}/{one['judgements']}", f"{one['gain']:.2f}",
            f"{one['bound']:.2f}", f"{one['of_learned']:.0%}", f"{one['of_old']:.0%}",
            f"{noise['gain']:.2f}", f"{beyond.mean():.2f} ± {error:.2f}",
            f"{one['above']}/{one['judgements']} ({one['limits'][0]:.1%} to "
            f"{one['limits'][1]:.1%})",
            *_beside(row.get("markov")),
        )  # fmt: skip
    settings = dict(logs=logs, cases=cases, iterations=iterations, first=first)
    paper = {"claim": "none: the paper does not evaluate off-policy"}
    figure = _figure(rows)
    console.save(
        out, "certificate", settings=settings, results=rows, paper=paper, figure=figure, table=table
    )


def _beside(one: dict[str, Any] | None) -> tuple[str, str, str]:
    """Columns of the ladder with --assume markov; empty where it was not judged."""
    if one is None:
        return "", "", ""
    return f"{one['deploys']}/{one['judgements']}", f"{one['of_old']:.0%}", f"{one['above']}"


def by_case(
    function: Callable[[dict[str, Any]], dict[str, Any]],
    title: str,
    cases: tuple[str, ...],
    seeds: range,
    iterations: int,
    out: Path,
    workers: int,
) -> dict[str, list[dict[str, Any]]]:
    """What a function finds on every log of every case; finished cells are kept in the folder."""
    cells = {
        f"{case}-{seed}": dict(
            problem=case.split("-")[0], episodes=int(case.split("-")[1]), seed=seed,
            iterations=iterations,
        )
        for case in cases
        for seed in seeds
    }  # fmt: skip
    with console.bar(title, len(cells)) as advance:
        found = run_cells(function, cells, out / "cells", workers=workers, advance=advance)
    return {case: [found[f"{case}-{seed}"] for seed in seeds] for case in cases}


def collect_log(env: Any, policy: Policy, key: Any, n: int, steps: int) -> Trajectories:
    """Episodes of a functional environment, or of a simulator by its id.

    Those of a simulator are padded to one of few lengths, so that few programs are compiled.
    """
    if isinstance(env, str):
        log = datasets.collect(env, policy, key, n=n, steps=steps)
        return padded(log, bucket_of(log.n_steps))
    return _functional(env, policy, key, n, steps)


@eqx.filter_jit
def _functional(env: Any, policy: Policy, key: Any, n: int, steps: int) -> Trajectories:
    return collect(env, policy, key, n=n, steps=steps)


@eqx.filter_jit
def _returns(env: Any, policy: Policy, key: Any, steps: int, discount: float) -> Any:
    log = collect(env, policy, key, n=FRESH, steps=steps)
    return jnp.where(log.mask, log.rewards, 0.0) @ discount ** jnp.arange(steps)


def collected(at: Setting, n: int, seed: int) -> tuple[Trajectories, list[Trajectories]]:
    """A log, and fresh held-out parts to judge by."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(11), 10_000 * n + seed), 1 + PARTS)
    log = collect_log(at.env, at.behaviour, keys[0], n, at.steps)
    return log, [collect_log(at.env, at.behaviour, key, n - n // 2, at.steps) for key in keys[1:]]


def truth(at: Setting, policy: Policy, steps: int) -> np.ndarray:
    """Returns of fresh episodes, the same randomness for every policy; cut off as the log is.

    Of a gridworld the exact value.
    """
    if isinstance(at.env, TwoAreas):
        return np.array([exact(at.env)(probabilities(at.env, policy))])
    discount = float(task_of(at.task).discount)
    if isinstance(at.env, str):
        groups = groups_of(at.env, policy, jax.random.key(10**6), n=SIMULATED, steps=steps)
        episodes = [
            one for _, group in sorted(simulate(groups), key=itemgetter(0)) for one in group
        ]
        return np.array([one.rewards @ discount ** np.arange(len(one.rewards)) for one in episodes])
    keys = [jax.random.key(10**6 + i) for i in range(TIMES)]
    parts = [_returns(at.env, policy, key, steps, discount) for key in keys]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])


def trained(
    at: Setting, data: datasets.Dataset, arguments: dict[str, Any], held_out: float
) -> tuple[Policy, Policy, Trajectories]:
    """What `gamps train` starts from and learns, and the part of the log that it learned from."""
    spec = TrainSpec(
        "in memory", task=at.task, features=at.features, recipe=at.recipe,
        seed=arguments["seed"], held_out=held_out, iterations=arguments["iterations"],
    )  # fmt: skip
    training = build(spec, data)
    progress = training.start()
    start = progress.best
    for _ in range(training.total):
        if progress.run.stopped:
            break
        progress, _ = training.step(progress)
    learned, _ = datasets.split_dataset(data, held_out, seed=spec.seed)
    return start, progress.best, learned.trajectories


def cell(arguments: dict[str, Any]) -> dict[str, Any]:
    """One log: train, choose the ladder, judge it by fresh held-out parts, look at the truth."""
    at, n, seed = setting(arguments["problem"]), arguments["episodes"], arguments["seed"]
    log, parts = collected(at, n, seed)
    data = datasets.Dataset(log, at.behaviour, None, None)
    start, learned, seen = trained(at, data, arguments, HALF)
    _, old, _ = trained(at, data, arguments, FIFTH)
    longest = max(int(one.lengths.max()) for one in (log, *parts))
    base = truth(at, at.behaviour, longest)

    def gain(policy: Policy) -> float:
        return float((truth(at, policy, longest) - base).mean())

    result: dict[str, Any] = {
        "behaviour": float(base.mean()), "learned": gain(learned), "old": gain(old),
    }  # fmt: skip
    shared: dict[str, Any] = dict(behaviour=at.behaviour, seed=seed)
    discount = float(task_of(at.task).discount)
    for name in LADDERS:
        end = between(start, learned, 0.0, 1.0) if name == "noise alone" else learned
        assume: Any = "markov" if name == "markov" else "nothing"
        rungs = evaluation.rungs(start, end, seen, discount, assume=assume, **shared)
        policies = [rung.policy for rung in rungs]
        gains = [gain(policy) for policy in policies]
        judged = []
        for held_out in parts:
            found = evaluation.evaluate(
                policies, seen, held_out, task_of(at.task), assume=assume, details=False, **shared
            )
            counted = [one.refusal is None for one in found.judged]
            lows = [one.improvement.low for one in found.judged]
            deployed = found.verdict.word == DEPLOY
            above = [c and low > true for c, low, true in zip(counted, lows, gains, strict=True)]
            judged.append({
                "word": found.verdict.word, "why": found.verdict.why, "chosen": found.chosen,
                "gain": gains[found.chosen] if deployed else 0.0,
                "bound": lows[found.chosen] if deployed else 0.0,
                "lows": lows, "counted": counted, "above": any(above),
            })  # fmt: skip
        result[name] = {"rungs": [rung[:2] for rung in rungs], "gains": gains, "judged": judged}
    forget_programs(seed)
    return result


def forget_programs(seed: int) -> None:
    """After every few logs: the programs of dozens would fill a process's memory map."""
    if seed % TOGETHER == TOGETHER - 1:
        jax.clear_caches()


def _row(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Of all logs of a problem and size."""
    each = [one for log in found for one in log[name]["judged"]]
    by_log = [float(np.mean([one["gain"] for one in log[name]["judged"]])) for log in found]
    above, n = sum(one["above"] for one in each), len(each)
    refused = [
        low > gain
        for log in found
        for one in log[name]["judged"]
        for low, gain, counts in zip(one["lows"], log[name]["gains"], one["counted"], strict=True)
        if not counts
    ]
    gain = float(np.mean(by_log))
    return {
        "deploys": sum(one["word"] == DEPLOY for one in each),
        "worse": sum(one["word"] == DEPLOY and one["gain"] < 0 for one in each),
        "judgements": n,
        "gain": gain,
        "by_log": by_log,
        "bound": float(np.mean([one["bound"] for one in each])),
        "of_learned": gain / float(np.mean([log["learned"] for log in found])),
        "of_old": gain / float(np.mean([log["old"] for log in found])),
        "above": above,
        "refused": len(refused),
        "refused_above": sum(refused),
        "limits": limits(sum(log[name]["judged"][0]["above"] for log in found), len(found), 0.95),
    }


def _figure(rows: dict[str, Any]) -> Any:
    figure, axes = figures.panels(1, 1, width=7.0, height=0.4 * len(rows) + 1.2)
    axis = axes[0, 0]
    kinds = {
        "certified": ("ladder", figures.COLOURS["gamps"]),
        "certified, if Markov": ("markov", "#c9a227"),
        "certified, only noise reduced": ("noise alone", "#5b6875"),
    }
    for i, (label, (kind, colour)) in enumerate(kinds.items()):
        shares = [row[kind]["of_old"] if kind in row else 0.0 for row in rows.values()]
        places = [y + 0.25 * (i - 1) for y in range(len(rows))]
        axis.barh(places, shares, height=0.25, color=colour, label=label)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    axis.set_xlabel("true gain, as a share of the gain learned from four fifths of the log")
    axis.legend(loc="center right", fontsize=8)
    return figure


if __name__ == "__main__":
    from benchmarks import studies
    from benchmarks.command_line import main

    main(studies, ["certificate", *sys.argv[1:]])
