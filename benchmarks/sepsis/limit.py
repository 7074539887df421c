"""How often a log of ICU-Sepsis can show that a policy learned from half of it is better.

Usage: python -m benchmarks.sepsis.limit --python SEPSIS/bin/python [--logs 3] [--out FOLDER]

A policy near the expert tilts its probabilities, by advantages that half of the log shows. What is
computed is exact: its gain, and the least standard error that any regular estimate from the other
half can have if states are Markov (the efficiency bound), with all values and ratios known. Their
ratio does not depend on the size of a small step. One policy, judged at an error of 5 %, is then
deployed with the chance that the table shows; a ladder, and values that are estimated, lower it.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.special import ndtr, ndtri

from benchmarks.sepsis.problem import TERMINAL, Sepsis, counts_of
from gamps._utils import console

SIZES = (500, 5_000, 50_000)
MORE = 20.0  # times that each pair is taken to be seen without an advantage; 5 and 100 do as well
LEFT = 1e-6  # share of the episodes that may be longer than what is counted


class Limit:
    """What can be known about small steps away from the expert."""

    def __init__(self, problem: Sepsis) -> None:
        self.problem, expert = problem, problem.expert.copy()
        expert[list(TERMINAL)] = 0.0
        reached = problem.transitions * (expert > 0)[:, :, None]
        self.s, self.a, self.after = np.nonzero(reached)
        at = (self.s, self.a, self.after)
        self.expert, self.chance = expert, problem.transitions[at]
        self.goes_on = problem.going[at] > 0
        self.inverse = np.linalg.inv(
            np.eye(len(expert)) - np.einsum("sa,sat->st", expert, problem.going)
        )
        v = self.inverse @ (expert * problem.rewards).sum(axis=1)
        self.q = problem.rewards + problem.going @ v
        self.advantages = self.q - v[:, None]
        self.luck = problem.outcomes[at] + v[self.after] * self.goes_on - self.q[self.s, self.a]

    def errors(self, tilt: np.ndarray, n: int) -> float:
        """Gain of a small step, in least standard errors of an estimate from n episodes.

        Args:
          tilt: derivative of the log probabilities along the step, `[S, A]`.
          n: episodes to judge by.
        """
        tilt = tilt - (self.expert * tilt).sum(axis=1, keepdims=True)
        v = self.inverse @ (self.expert * tilt * self.q).sum(axis=1)  # derivative of the values
        q = np.zeros_like(tilt)
        np.add.at(q, (self.s, self.a), self.chance * v[self.after] * self.goes_on)
        later = v[self.after] * self.goes_on - q[self.s, self.a]
        here = np.where(self.expert.any(axis=1), self.problem.starts, 0.0)
        states = np.zeros(len(v))  # derivative of their ratios
        gain = float(here @ v)
        variance = float(here @ (v - gain) ** 2)
        while here.sum() > LEFT:
            flow = here[self.s] * self.expert[self.s, self.a] * self.chance
            ratio = states[self.s] + tilt[self.s, self.a]
            variance += float(flow @ (ratio * self.luck + later) ** 2)
            flow = flow * self.goes_on
            here = np.bincount(self.after, flow, len(v))
            sums = np.bincount(self.after, flow * ratio, len(v))
            states = np.divide(sums, here, out=np.zeros(len(v)), where=here > 0)
        return gain * (n / variance) ** 0.5

    def logged(self, n: int, seed: int) -> np.ndarray:
        """Mean advantages of the pairs in n episodes, those of rare pairs closer to zero."""
        log = self.problem.log(n, seed)
        counts, rewards = counts_of(log, self.expert.shape)
        pairs = counts.sum(axis=2)
        visits = np.maximum(pairs.sum(axis=1), 1)
        following = counts.sum(axis=1) / visits[:, None]
        following[:, list(TERMINAL)] = 0.0
        v = np.linalg.solve(np.eye(len(visits)) - following, rewards.sum(axis=1) / visits)
        totals = rewards + counts @ v - pairs * v[:, None]
        return np.where(pairs > 0, totals, 0.0) / (pairs + MORE)


def main(python: str, logs: int = 3, out: Path = Path("runs/sepsis")) -> None:
    """Print and keep the table.

    Args:
      python: of an environment that has icu-sepsis.
      logs: of each size, seeds 0, 1, …
      out: folder for sepsis-limit.json.
    """
    limit = Limit(Sepsis(python))
    critical, results = float(ndtri(0.95)), {}
    table = console.rich_table(
        "Gain of a small step, in standard errors of the best estimate from half of the log",
        ["episodes", "logged advantages", "deploy, at most", "true advantages", "deploy, at most"],
    )
    for size in SIZES:
        half = size // 2
        logged = [limit.errors(limit.logged(half, seed), half) for seed in range(logs)]
        true = limit.errors(limit.advantages, half)
        chances = [float(np.mean(ndtr(np.asarray(z) - critical))) for z in (logged, [true])]
        row: dict[str, Any] = {"logged": logged, "true": true}
        results[str(size)] = row | {"deploy": chances[0], "deploy_true": chances[1]}
        mean, std = np.mean(logged), np.std(logged, ddof=1)
        table.add_row(
            f"{size:,}", f"{mean:.2f} ± {std:.2f}", f"{chances[0]:.0%}", f"{true:.2f}",
            f"{chances[1]:.0%}",
        )  # fmt: skip
    console.say(table)
    out.mkdir(parents=True, exist_ok=True)
    content = {"settings": {"logs": logs, "more": MORE}, "results": results}
    (out / "sepsis-limit.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    tyro.cli(main)
