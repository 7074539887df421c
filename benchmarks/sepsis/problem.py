"""The arrays of the package `icu-sepsis`, logs of its expert, and values by linear algebra.

The package wants a simulator's worth of others; only its arrays are read:
`python3 -m venv SEPSIS && SEPSIS/bin/pip install --no-deps -r benchmarks/sepsis/requirements.txt`.
"""

from __future__ import annotations

import subprocess
from functools import cached_property
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from gamps.policies import Boltzmann, OneHot
from gamps.trajectories import Episode, Trajectories, from_episodes

TERMINAL = (713, 714, 715)  # death, survival, and what follows both
WHERE = "import importlib.util as u; print(u.find_spec('icu_sepsis').submodule_search_locations[0])"
SOLVED = 1e-12


class Sepsis:
    """The problem; undiscounted, one for whoever survives.

    Args:
      python: of an environment that has the package.
    """

    def __init__(self, python: str) -> None:
        found = subprocess.run(  # noqa: S603
            [python, "-c", WHERE], capture_output=True, text=True, check=True
        )
        arrays = np.load(Path(found.stdout.strip()) / "envs" / "assets" / "dynamics.npz")
        names = ("tx_mat", "r_mat", "d_0", "expert_policy")
        self.transitions, rewards, self.starts, expert = (
            arrays[name].astype(np.float64) for name in names
        )
        self.outcomes = rewards
        self.rewards = (self.transitions * rewards).sum(axis=2)
        self.going = self.transitions.copy()
        for state in TERMINAL:
            self.going[state], self.rewards[state], expert[state] = 0.0, 0.0, 1.0
        self.expert = expert / expert.sum(axis=1, keepdims=True)

    def value(self, pi: np.ndarray) -> float:
        """Exact."""
        mean = np.einsum("sa,sat->st", pi, self.going)
        v = np.linalg.solve(np.eye(len(pi)) - mean, (pi * self.rewards).sum(axis=1))
        return float(self.starts @ v)

    @cached_property
    def optimum(self) -> float:
        """By value iteration, to the last digit that counts."""
        v = np.zeros(len(self.starts))
        while True:
            new = (self.rewards + self.going @ v).max(axis=1)
            if np.abs(new - v).max() < SOLVED:
                return float(self.starts @ new)
            v = new

    def table(self, policy: Any) -> np.ndarray:
        """Probabilities of a policy; the expert's in states beyond those of its table."""
        logits = np.asarray(policy.weights, np.float64)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        pi = self.expert.copy()
        pi[: len(p)] = 0.0
        pi[: len(p), : p.shape[1]] = p / p.sum(axis=1, keepdims=True)
        return pi

    def behaviour(self) -> Boltzmann:
        """The expert as a policy."""
        logits = jnp.asarray(np.log(np.maximum(self.expert, np.exp(-20.0))), dtype=float)
        return Boltzmann(logits, OneHot(len(logits)))

    def log(self, n: int, seed: int) -> Trajectories:
        """Episodes of the expert."""
        rng = np.random.default_rng(seed)
        chances = self.expert.cumsum(axis=1)
        chances = chances / chances[:, -1:]
        leads = self.transitions.cumsum(axis=2)
        leads = leads / leads[..., -1:]
        state = rng.choice(len(self.starts), n, p=self.starts)
        states, actions, rewards = [state], [], []
        alive, lengths = ~np.isin(state, TERMINAL), np.zeros(n, int)
        while alive.any():
            action = (chances[state] <= rng.random(n)[:, None]).sum(axis=1)
            following = (leads[state, action] <= rng.random(n)[:, None]).sum(axis=1)
            rewards.append(self.outcomes[state, action, following])
            actions.append(action)
            lengths += alive
            state = np.where(alive, following, state)
            states.append(state)
            alive &= ~np.isin(state, TERMINAL)
        each = [np.stack(x, axis=1) for x in (states, actions, rewards)]
        return from_episodes([self._episode(i, steps, *each) for i, steps in enumerate(lengths)])

    def _episode(
        self, i: int, steps: int, states: np.ndarray, actions: np.ndarray, rewards: np.ndarray
    ) -> Episode:
        seen, chosen = states[i, : steps + 1], actions[i, :steps]
        density = np.log(self.expert[seen[:-1], chosen])
        return Episode(seen, chosen, rewards[i, :steps], density, terminated=True)


def counts_of(log: Trajectories, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """`[S, A, S]` transitions that were seen, and `[S, A]` sums of their rewards."""
    mask = np.asarray(log.mask)
    states, actions, following = (
        np.asarray(x)[mask] for x in (log.states, log.actions, log.next_states)
    )
    counts, rewards = np.zeros((*shape, shape[0])), np.zeros(shape)
    np.add.at(counts, (states, actions, following), 1.0)
    np.add.at(rewards, (states, actions), np.asarray(log.rewards, np.float64)[mask])
    return counts, rewards
