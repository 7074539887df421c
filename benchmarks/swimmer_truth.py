"""Find out what limits GAMPS on Swimmer: the model, or the log.

The stabilised search with its model replaced by the simulator itself: Q and V of logged pairs by
MuJoCo rollouts that start in the logged states. Whatever is missing then is not the model's fault.
A random part of the pairs is evaluated in each iteration, since the simulator is a thousand times
slower than a network. `gamps reproduce swimmer --episodes 1000` is the other half of the answer.

Usage: python -m benchmarks.swimmer_truth --seeds 4 [--pairs 1500] [--out FILE]
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import mujoco
import mujoco.rollout
import numpy as np
import tyro

from gamps import search
from gamps._utils import summaries
from gamps._utils.compile_cache import keep_compiled
from gamps._utils.worker_pool import cores, share_out
from gamps.envs import swimmer
from gamps.paper.best_settings import BEST
from gamps.paper.swimmer_setup import ITERATIONS, USES, evaluate, log_of, search_of
from gamps.search.fitting import Keep
from gamps.search.values import Values

STATE = mujoco.mjtState.mjSTATE_FULLPHYSICS
FIRST = 1100


class Simulator:
    """Many swimmers at once, in any state; x and y start at zero, which nothing depends on."""

    def __init__(self) -> None:
        env: Any = gymnasium.make(swimmer.ID).unwrapped
        self.model, self.skip, self.dt = env.model, env.frame_skip, env.dt
        self.data = mujoco.MjData(self.model)
        self.size = mujoco.mj_stateSize(self.model, STATE)
        self.rollout = mujoco.rollout.Rollout(nthread=0)

    def states(self, observations):
        """Full states: time, positions, velocities."""
        states = np.zeros((len(observations), self.size))
        states[:, 3:11] = observations
        return states

    def step(self, states, actions):
        """One control step and its reward."""
        control = np.repeat(np.clip(actions, -1, 1)[:, None], self.skip, axis=1)
        following = self.rollout.rollout(
            self.model, self.data, states, control=control, nstep=self.skip
        )[0][:, -1]
        forward = (following[:, 1] - states[:, 1]) / self.dt
        return following, forward - swimmer.CONTROL_COST * (actions**2).sum(axis=1)

    def returns(self, weights, std, observations, actions, noise, horizon):
        """Discounted return of a linear policy from each state, the first action given."""
        states, total = self.states(observations), 0.0
        for h in range(horizon):
            states, reward = self.step(states, actions)
            total = total + swimmer.DISCOUNT**h * reward
            seen = np.pad(states[:, 3:11], ((0, 0), (0, 1)), constant_values=1.0)
            actions = seen @ weights + std * noise[h + 1]
        return total


_simulator: list[Simulator] = []


def truth(weights, log_std, observations, actions, seed, horizon):
    """Q and V, from one antithetic pair of rollouts each, with the same noise."""
    if not _simulator:
        _simulator.append(Simulator())
    weights, std, observations, actions = map(np.asarray, (weights, np.exp(log_std), observations,
                                                           actions))  # fmt: skip
    drawn = np.random.default_rng(int(seed)).normal(size=(horizon + 1, len(actions), 2))
    seen = np.pad(observations, ((0, 0), (0, 1)), constant_values=1.0)
    q, v = 0.0, 0.0
    for noise in (drawn, -drawn):
        first = seen @ weights + std * noise[0]
        go = lambda a, z=noise: _simulator[0].returns(weights, std, observations, a, z, horizon)  # noqa: E731
        q, v = q + go(actions) / 2, v + go(first) / 2
    return np.asarray(q, np.float32), np.asarray(v, np.float32)


class Simulated(eqx.Module):
    """Values at a random part of the logged pairs by the simulator; zero elsewhere."""

    pairs: int
    horizon: int

    def __call__(self, key, policy, model, task, trajectories, ratios):
        """A `values` part."""
        del model, task
        shape = trajectories.mask.shape
        key_pairs, key_noise = jax.random.split(key)
        chosen = jax.random.choice(key_pairs, trajectories.mask.size, (self.pairs,), replace=False)
        observations = trajectories.states.reshape(-1, swimmer.OBSERVATIONS)[chosen]
        actions = trajectories.actions.reshape(-1, swimmer.ACTIONS)[chosen]
        seed = jax.random.randint(key_noise, (), 0, 2**31 - 1)
        kind = jax.ShapeDtypeStruct((self.pairs,), jnp.float32)
        q, v = jax.pure_callback(
            lambda *arguments: truth(*arguments, self.horizon),
            (kind, kind), policy.weights, policy.log_std, observations, actions, seed,
        )  # fmt: skip
        place = jnp.zeros(trajectories.mask.size)
        q, v = (place.at[chosen].set(x).reshape(shape) for x in (q, v))
        return Values(ratios.discounted_rho * q, v)


def work(arguments):
    """One seed."""
    seed, pairs, episodes = arguments
    keys = dict(zip(USES, jax.random.split(jax.random.key(seed), len(USES)), strict=True))
    chosen = replace(BEST["gamps"], members=1)
    log = log_of(seed, episodes, 0.5)
    built = search_of("gamps", log, chosen)
    built = eqx.tree_at(
        lambda s: (s.values, s.fit), built, (Simulated(pairs, chosen.horizon), Keep())
    )
    state = built.init(swimmer.policy(0.5))
    _, _, weights = search.run(
        built, keys["search"], state, iterations=ITERATIONS, measure=lambda s: s.policy.weights
    )
    return {
        "final": evaluate(weights[-1], keys["final"], 20),
        "curve": [evaluate(w, keys["curve"], 5) for w in weights],
    }


def main(seeds: int = 4, pairs: int = 1500, episodes: int = 100, out: Path | None = None) -> None:
    """Run it and print the finals."""
    keep_compiled()
    items = [(seed, pairs, episodes) for seed in range(FIRST, FIRST + seeds)]
    found = dict(share_out(work, items, workers=cores()))
    finals = [found[i]["final"] for i in range(seeds)]
    content = {
        "final": summaries.summary(finals),
        "max": summaries.summary([max(found[i]["curve"]) for i in range(seeds)]),
        "pairs": pairs,
        "episodes": episodes,
        "seeds": [FIRST + i for i in range(seeds)],
    }
    text = json.dumps(content, indent=1)
    print(text)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    tyro.cli(main)
