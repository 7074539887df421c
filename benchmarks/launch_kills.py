"""kill -9 under `gamps launch` and `gamps sweep`: every job ends, and ends with the same numbers.

job: a training of two processes is run once without a break. Then the same is launched again, and
processes of it are killed at random moments, any of them or process 0, the coordinator, until all
kills are spent. Of every job the final checkpoint must equal the unbroken one bit for bit.

sweep: tasks are run one by one in a single process. Then they are run by Ray, and processes that
are at a task are killed at random moments. There must be one result a task, of the same bytes.

node: on a cluster of two nodes one is lost. The job must end with one process fewer, and its policy
equal that of the unbroken job to 1e-6, in double precision.

Usage: python -m benchmarks.launch_kills [--kills 50] [--coordinator 10] [--sweep-kills 200]
    [--recipe pgt] [--parts job sweep node]
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import tyro

from gamps import datasets
from gamps.envs import Minigolf, collect
from gamps.runs import checkpoints

GAMPS = [sys.executable, "-c", "from gamps.cli import main; main()"]
LOG, TASK = "golf/kills-v0", "gamps.envs.minigolf:task"
LATEST = 3600.0  # seconds after which a job or a sweep is said to hang


class Killer:
    """Kills processes of one command, each at a random moment after it was seen at its work.

    One in four dies in the seconds after that, which is while it starts; the others some iterations
    later, so that however slow the machine is, kills do not outrun the work.
    """

    def __init__(self, chance, lasts, iterations):
        self.chance, self.lasts, self.iterations = chance, lasts, max(iterations, 1)
        self.plans, self.done, self.starting = {}, 0, 0

    def step(self, working):
        """Look at `(work, iterations done, pids)`; of each work one process dies, once."""
        struck = 0
        for work, done, pids in working:
            if work not in self.plans:
                starting, after = self.chance.random() < 0.25, self.chance.uniform(0, self.lasts)
                more = 0 if starting else self.chance.randint(1, self.iterations)
                self.plans[work] = [starting, time.monotonic() + after, done + more]
            starting, moment, number = self.plans[work]
            if (time.monotonic() < moment) if starting else (done < number):
                continue
            self.plans[work] = [True, float("inf"), 0]
            if not starting:  # at any moment within an iteration
                time.sleep(self.chance.uniform(0, 0.03))
            pid = self.chance.choice(pids)
            title = Path(f"/proc/{pid}/cmdline")
            if title.exists() and title.read_bytes().startswith(b"ray::"):
                os.kill(pid, signal.SIGKILL)
                struck += 1
                self.starting += starting
        self.done += struck
        return struck


def number(run):
    """Of the last checkpoint."""
    every = checkpoints.numbered(run / "checkpoints")
    return int(every[-1].name) if every else 0


def read(path):
    """A JSON file that may not be there, or not any more."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def run(words, step, **environment):
    """Run a command, calling `step` many times a second; its time."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        told = {"stdout": output, "stderr": subprocess.STDOUT, "env": os.environ | environment}
        process = subprocess.Popen([*GAMPS, *words], **told)  # noqa: S603
        while process.poll() is None:
            step()
            time.sleep(0.02)
            if time.monotonic() - began > LATEST:
                process.terminate()
                process.wait()
        output.seek(0)
        if process.returncode:
            sys.exit(f"{words[0]} ended with {process.returncode}:\n{output.read()[-3000:]}")
    return time.monotonic() - began


def launched(out, words):
    """The command of a job."""
    return ["launch", LOG, "--task", TASK, *words, "--processes", "2", "--out", str(out)]


def last(out):
    """The final checkpoint."""
    found, refused = checkpoints.latest(out / "checkpoints")
    if refused or found is None:
        sys.exit(f"{out}: damaged or no checkpoints: {refused}")
    return found


def job(folder, kills, coordinator, iterations, words, chance):
    """Kill workers of jobs until all kills are spent."""
    started = []

    def look():
        if not started and (folder / "whole" / "workers.json").exists():
            started.append(time.monotonic())

    lasts = run(launched(folder / "whole", words), look)
    works = time.monotonic() - started[0]
    print(f"unbroken: {lasts:.0f} s, {works:.0f} s of them at work", flush=True)
    whole = last(folder / "whole")
    victims = ["any"] * kills + ["first"] * coordinator
    chance.shuffle(victims)
    jobs = restarts = starting = 0
    began = time.monotonic()
    while victims:
        out, killer = folder / f"job{jobs}", Killer(chance, works / 2, iterations // 4)

        def step(out=out, killer=killer):
            now = read(out / "workers.json") if victims else {}
            if now:
                pids = now["pids"] if victims[-1] == "any" else [now["coordinator"]]
                if killer.step([(now["attempt"], number(out), pids)]):
                    victims.pop()

        run(launched(out, words), step)
        starting += killer.starting
        jobs, restarts = jobs + 1, restarts + read(out / "workers.json")["attempt"] - 1
        found = last(out)
        same = whole.plain == found.plain and all(
            np.array_equal(whole.arrays[k], found.arrays[k]) for k in whole.arrays
        )
        print(f"job {jobs}: {killer.done} kills, {len(victims)} left, bit-equal: {same}",
              flush=True)  # fmt: skip
        if not same:
            sys.exit("the end differs")
    spent = kills + coordinator
    print(f"job: {kills} kills of any process and {coordinator} of the coordinator in {jobs} jobs, "
          f"{starting} of them at a start, {restarts} restarts, all ended bit-equal; "
          f"{(time.monotonic() - began) / spent:.1f} s a kill")  # fmt: skip


def sweep(folder, tasks, kills, iterations, chance):
    """Kill processes that are at a task until all kills are spent."""
    file = folder / "sweep.toml"
    seeds = list(range(max(tasks // 4, 1)))
    file.write_text(
        f'log = "{LOG}"\ntask = "{TASK}"\niterations = {iterations}\nseed = {seeds}\n'
        'recipe = ["pgt", "reinforce"]\nlearning_rate = [0.01, 0.02]\n'
    )
    words = ["sweep", str(file), "--out"]
    lasts = run([*words, str(folder / "serial"), "--workers", "1"], lambda: None)
    serial = {p.name: p.read_bytes() for p in (folder / "serial" / "results").iterdir()}
    print(f"serial: {len(serial)} tasks in {lasts:.0f} s", flush=True)
    done = sweeps = 0
    began = time.monotonic()
    while done < kills:
        out = folder / f"sweep{sweeps}"
        killer = Killer(chance, lasts / len(serial), iterations // 3)

        def step(out=out, killer=killer, before=done):
            working = {path.stem: read(path) for path in (out / "workers").glob("*.json")}
            if before + killer.done < kills:
                killer.step(
                    ((name, now["pid"]), number(out / "runs" / name), [now["pid"]])
                    for name, now in working.items()
                    if now
                )

        run([*words, str(out), "--workers", "2"], step)
        sweeps, done = sweeps + 1, done + killer.done
        found = {p.name: p.read_bytes() for p in (out / "results").iterdir()}
        print(f"sweep {sweeps}: {killer.done} kills, {done} in all, byte-equal: {found == serial}",
              flush=True)  # fmt: skip
        if found != serial or list((out / "failed").iterdir()):
            sys.exit("the results differ")
    print(f"sweep: {done} kills in {sweeps} sweeps of {len(serial)} tasks, one result a task, all "
          f"byte-equal to those of a single process; {(time.monotonic() - began) / done:.1f} s a "
          "kill")  # fmt: skip


def node(folder, words):
    """Lose a node of two."""
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # 127.0.0.1 only, read at the import
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    double = {"JAX_ENABLE_X64": "1"}
    run(launched(folder / "double", words), lambda: None, **double)
    whole = last(folder / "double")
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    try:
        small.pop("include_dashboard")
        extra = [cluster.add_node(**small)]
        cluster.wait_for_nodes()
        out = folder / "node"

        def step():
            if extra and len(checkpoints.numbered(out / "checkpoints")) >= 2:
                cluster.remove_node(extra.pop(), allow_graceful=False)

        joined = [*launched(out, words), "--address", cluster.address, "--patience", "5"]
        lasts = run(joined, step, **double)
    finally:
        cluster.shutdown()
    found, now = last(out), read(out / "workers.json")
    largest = max(
        float(np.abs(whole.arrays[k] - found.arrays[k]).max() / (1 + np.abs(whole.arrays[k]).max()))
        for k in whole.arrays
        if whole.arrays[k].dtype.kind == "f"
    )
    print(f"node: one of two lost, ended in attempt {now['attempt']} with {len(now['pids'])} "
          f"process after {lasts:.0f} s; parameters differ by {largest:.1e} at most")  # fmt: skip
    if extra or len(now["pids"]) != 1 or found.number != whole.number or largest > 1e-6:
        sys.exit("the end differs")


def main(
    kills: int = 50,
    coordinator: int = 10,
    tasks: int = 64,
    sweep_kills: int = 200,
    iterations: int = 150,
    recipe: str = "pgt",
    seed: int = 0,
    parts: tuple[str, ...] = ("job", "sweep", "node"),
) -> None:
    """Print what became of every job and sweep."""
    chance = random.Random(seed)  # noqa: S311
    words = ["--recipe", recipe, "--iterations", str(iterations)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["MINARI_DATASETS_PATH"] = str(folder / "data")
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        (folder / "cache").mkdir(mode=0o700)
        env = Minigolf()
        log = collect(env, env.policy(), jax.random.key(seed), n=40, steps=20)
        datasets.save(LOG, log, env.policy())
        if "job" in parts:
            job(folder, kills, coordinator, iterations, words, chance)
        if "sweep" in parts:
            sweep(folder, tasks, sweep_kills, max(iterations // 4, 2), chance)
        if "node" in parts:
            node(folder, words)


if __name__ == "__main__":
    tyro.cli(main)
