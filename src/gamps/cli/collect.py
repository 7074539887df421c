"""`gamps collect`: log a known policy, as a Minari dataset."""

import json
from pathlib import Path
from typing import Annotated

import jax
import numpy as np
import tyro

from gamps import datasets
from gamps._utils import console
from gamps._utils.worker_pool import cores
from gamps.datasets.simulation import LANES
from gamps.errors import OutputError, SettingError
from gamps.policies import Policy, rebuild
from gamps.runs.resolve import policy_named


def collect(
    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")],
    /,
    *,
    dataset: str,
    policy: str = "random",
    std: float = 0.5,
    episodes: int = 100,
    steps: int | None = None,
    discount: float = 0.99,
    seed: int = 0,
    workers: int = cores(),
    overwrite: bool = False,
) -> None:
    """Run a known policy in a Gymnasium environment and save the log as a Minari dataset.

    Every action is logged as it was drawn, before any clipping, with its log-density in
    infos["behavior_log_prob"]; the policy and the discount go into the metadata. Open the result
    with minari.load_dataset(NAME) or gamps.datasets.load(NAME).

    Example: gamps collect Swimmer-v5 --steps 200 --dataset swimmer/random-v0

    Args:
      env: id of a Gymnasium environment; MuJoCo's need pip install "gamps[mujoco]".
      dataset: name of the new dataset, like swimmer/random-v0; stored in MINARI_DATASETS_PATH.
      policy: random; module:object, a gamps.policies.Policy or a function that makes one; or the
        path of a policy's description (JSON, see gamps.policies.describe).
      std: standard deviation of each action of the random policy, if actions are continuous.
      episodes: number of episodes.
      steps: cut episodes off after this many steps; by default where the environment does.
      discount: discount factor, stored with the log for training.
      seed: seed of policy and environment; the log does not depend on the number of workers.
      workers: number of processes that simulate.
      overwrite: replace a dataset of the same name.
    """
    if not 0 < discount <= 1:
        raise SettingError("discount", f"{discount}", "Choose it in (0, 1]")
    folder = datasets.folder_of(dataset)
    if folder.exists() and not overwrite:
        raise OutputError(f"{folder}: exists already. Choose another name, or add --overwrite")
    behaviour = first_policy(policy, env, std)
    with console.bar(f"collect {env}", -(-episodes // LANES)) as advance:
        log = datasets.collect(
            env,
            behaviour,
            jax.random.key(seed),
            n=episodes,
            steps=steps,
            workers=workers,
            advance=advance,
        )
    folder = datasets.save(
        dataset, log, behaviour, env=env, steps=steps, discount=discount, overwrite=overwrite
    )
    returns, lengths = np.asarray(log.rewards.sum(axis=1)), np.asarray(log.lengths)
    table = console.rich_table(f"{dataset}: {env}", ["", "mean", "std", "least", "most"])
    for name, values in (("return", returns), ("steps", lengths)):
        numbers = (values.mean(), values.std(), values.min(), values.max())
        table.add_row(name, *(f"{number:.2f}" for number in numbers))
    console.say(table)
    console.say(f"{episodes} episodes, {lengths.sum()} steps")
    console.say(f"written: {folder}")


def first_policy(words: str, env: str, std: float) -> Policy:
    """Return the policy that `random`, `module:object` or a description's path names."""
    if words == "random":
        return datasets.policy_for(env, std=std)
    path = Path(words)
    if ":" in words and not path.exists():
        return policy_named(words)
    try:
        return rebuild(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        fix = "Give random, module:object, or the path of a policy's JSON description"
        raise SettingError("policy", f"{path}: {error}", fix) from error
