"""The default on logs of any length: what an iteration, and what each command takes of memory.

    python -m benchmarks.streamed_default FOLDER --problem hopper --sizes 100000 1000000 10000000

Logs are simulated: two tanks, minigolf, or Hopper with the controller of benchmarks/robots. Each
command runs in a process of its own, pinned to one core; memory is the most that it ever held.
FOLDER/streamed_default.json keeps what was found of all problems; a size that is there is not run
again.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium
import jax
import mujoco
import numpy as np
import tyro

from benchmarks.robots import known
from gamps import datasets
from gamps.envs import Minigolf, minigolf, tanks
from gamps.trajectories import Episode, Trajectories, from_episodes

BLOCK = 1_600  # episodes that are simulated together
ROBOTS = 200  # the same for Hopper, whose episodes have up to 1,000 steps
ITERATIONS = 12
Problem = Literal["tanks", "minigolf", "hopper"]
TASKS = {
    "tanks": "gamps.envs.tanks:task",
    "minigolf": "gamps.envs.minigolf:task",
    "hopper": "benchmarks.robots.known:hopper",
}
CHILD = """
import json, resource, sys
from gamps.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    status = end.code
else:
    status = 0
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = used.ru_utime + used.ru_stime
found = {"status": status or 0, "memory": used.ru_maxrss / 2**20, "seconds": seconds}
print("FOUND", json.dumps(found), file=sys.stderr)
"""


def main(
    folder: Annotated[Path, tyro.conf.Positional],
    problem: Problem = "hopper",
    sizes: tuple[int, ...] = (100_000, 1_000_000, 10_000_000),
    core: int = 0,
) -> None:
    """Run train, evaluate, report and export on a log of each size.

    Args:
      folder: for logs, runs and what was found.
      problem: who made the logs.
      sizes: steps of the logs, the smallest first.
      core: that every command is pinned to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    os.sched_setaffinity(0, {core})
    for steps in sizes:
        kept = folder / f"{problem}-{steps}.json"
        if kept.exists():
            continue
        name = f"{problem}/steps{steps}-v0"
        if not datasets.folder_of(name).exists():
            _make(name, problem, steps)
        run = folder / f"{problem}-{steps}-{time.time_ns()}"
        train = ["train", name, "--task", TASKS[problem], "--stream"]
        train += ["--iterations", str(ITERATIONS)]
        row: dict[str, Any] = {"train": _run([*train, "--out", str(run)])}
        for command in ("evaluate", "report", "export"):
            which = ["--which", "learned"] if command == "export" else []
            row[command] = _run([command, str(run), *which])
        lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
        # The first climbs on the log and fits, and some look at what the policy is worth.
        row["iteration"] = float(np.median([line["seconds"] for line in lines[1:]]))
        row["first_iteration"] = lines[0]["seconds"]
        kept.write_text(json.dumps(row) + "\n")
        print(steps, json.dumps(row), flush=True)
    found: dict[str, dict[str, Any]] = {}
    for kept in sorted(folder.glob("*-*.json"), key=lambda path: int(path.stem.split("-")[1])):
        found.setdefault(kept.stem.split("-")[0], {})[kept.stem.split("-")[1]] = json.loads(
            kept.read_text()
        )
    content = {"settings": {"iterations": ITERATIONS}, "results": found}
    (folder / "streamed_default.json").write_text(json.dumps(content, indent=1) + "\n")


def _make(name: str, problem: Problem, steps: int) -> None:
    """A log, without holding it."""
    if problem == "hopper":
        policy, discount = known.controller("hopper"), known.DISCOUNT
        blocks = (_hopper(block) for block in count())
    elif problem == "minigolf":
        golf = Minigolf()
        policy, discount = golf.policy(), golf.discount
        blocks = _blocks(golf, policy, minigolf.HORIZON)
    else:
        policy, discount = tanks.policy(), tanks.DISCOUNT
        blocks = _blocks(tanks.TwoTanks(), policy, tanks.HORIZON)
    datasets.save(name, _until(blocks, steps), policy, discount=discount)


def _until(blocks: Iterator[Trajectories], steps: int) -> Iterator[Trajectories]:
    """Whole blocks, until they have so many steps."""
    held = 0
    while held < steps:
        block = next(blocks)
        held += int(block.mask.sum())
        print(f"{held:,} of {steps:,} steps", flush=True)
        yield block


def _blocks(env: Any, policy: Any, horizon: int) -> Iterator[Trajectories]:
    for block in count():
        yield datasets.collect(env, policy, jax.random.key(block), n=BLOCK, steps=horizon)


def _hopper(block: int) -> Trajectories:
    """Episodes of Hopper-v5 side by side: one product a layer for all, and MuJoCo called bare."""
    controller, rng = known.controller("hopper"), np.random.default_rng(block)
    layers = [(np.asarray(x.weight), np.asarray(x.bias)) for x in controller.network.layers]
    deviation = known.NOISES["medium"]
    env = gymnasium.make("Hopper-v5").unwrapped
    states = [mujoco.MjData(env.model) for _ in range(ROBOTS)]  # type: ignore[attr-defined]
    for data in states:
        data.qpos[:] = env.init_qpos + rng.uniform(-5e-3, 5e-3, env.model.nq)
        data.qvel[:] = env.init_qvel + rng.uniform(-5e-3, 5e-3, env.model.nv)
        mujoco.mj_forward(env.model, data)
    seen = [[_seen(data)] for data in states]
    drawn: list[list[Any]] = [[] for _ in states]
    fell = [False] * ROBOTS
    for _ in range(known.ROBOTS["hopper"].horizon):
        upright = [i for i in range(ROBOTS) if not fell[i]]
        mean = np.stack([seen[i][-1] for i in upright]) if upright else np.zeros((0, 11))
        for weight, bias in layers[:-1]:
            mean = np.tanh(mean @ weight.T + bias)
        mean = mean @ layers[-1][0].T + layers[-1][1]
        noise = rng.normal(size=mean.shape)
        actions = mean + deviation * noise
        densities = -0.5 * (noise**2).sum(1) - 3 * np.log(deviation * np.sqrt(2 * np.pi))
        for i, action, density in zip(upright, actions, densities, strict=True):
            data = states[i]
            before, data.ctrl[:] = data.qpos[0], np.clip(action, -1.0, 1.0)
            mujoco.mj_step(env.model, data, nstep=env.frame_skip)
            after = _seen(data)
            fell[i] = not (after[0] > 0.7 and abs(after[1]) < 0.2 and np.abs(after[1:]).max() < 100)
            reward = (data.qpos[0] - before) / env.dt + (not fell[i]) - 1e-3 * data.ctrl @ data.ctrl
            seen[i].append(after)
            drawn[i].append((action, reward, density))
    return from_episodes(
        [
            Episode(np.stack(x), *map(np.stack, zip(*u, strict=True)), terminated=end)
            for x, u, end in zip(seen, drawn, fell, strict=True)
        ],
        length=known.ROBOTS["hopper"].horizon,
    )


def _seen(data: Any) -> Any:
    return np.concatenate([data.qpos[1:], np.clip(data.qvel, -10.0, 10.0)])


def _run(words: list[str]) -> dict[str, float]:
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CHILD, *words], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stderr.split("FOUND ")[-1])
    return found


if __name__ == "__main__":
    tyro.cli(main)
