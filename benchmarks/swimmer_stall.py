"""Where the default's Swimmer policies earn what they earn, in the simulator and in their models.

The mean reward of the mean action over stretches of 25 steps: in MuJoCo, and in a model fitted to
the same log from the same starts.

Usage: python -m benchmarks.swimmer_stall [--seeds 2]
"""

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from gamps import datasets
from gamps.envs import swimmer
from gamps.learner import learn, model_classes
from gamps.learner.model_classes import fitted
from gamps.policies import LinearGaussianPolicy

STRETCH = 25


def stretches(rewards: np.ndarray) -> str:
    """Mean of `[N, T]` over episodes and stretches of steps."""
    means = rewards.reshape(len(rewards), -1, STRETCH).mean(axis=(0, 2))
    return " ".join(f"{mean:6.2f}" for mean in means)


def imagined(
    model: object, policy: LinearGaussianPolicy, starts: jax.Array, steps: int
) -> np.ndarray:
    """Rewards of the mean action in the model, without its noise."""

    def step(states: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        actions = jax.vmap(policy.mean)(states)
        quiet = jnp.zeros(model.noise_size)
        following = jax.vmap(lambda s, a: model.step(s, a, quiet))(states, actions)
        return following, jax.vmap(swimmer.reward)(states, actions, following)

    return np.asarray(jax.lax.scan(step, starts, length=steps)[1]).T


def main(seeds: int = 2) -> None:
    """Print both rows for every log."""
    classes = {"network": model_classes(swimmer.clipped)["network"]}
    for seed in range(seeds):
        key_log, key_learn, key_fit, key_fresh = jax.random.split(jax.random.key(5_000 + seed), 4)
        behaviour = swimmer.policy()
        log = datasets.collect(swimmer.ID, behaviour, key_log, n=100, steps=swimmer.HORIZON)
        policy = learn(log, swimmer.task(), behaviour, classes, seed=key_learn).policy
        quiet = LinearGaussianPolicy(
            policy.weights, log_std=jnp.full(swimmer.ACTIONS, -20.0), learn_std=False
        )
        fresh = datasets.collect(swimmer.ID, quiet, key_fresh, n=20, steps=swimmer.HORIZON)
        kind = classes["network"]
        model = fitted(kind.fit, key_fit, kind.make(key_fit, log), log, log.mask.astype(float))
        rewards = np.asarray(fresh.rewards)
        print(f"log {seed}: return {rewards.sum(axis=1).mean():.1f}")
        print(f"  simulator {stretches(rewards)}")
        found = imagined(model, policy, fresh.states[:, 0], swimmer.HORIZON)
        print(f"  model     {stretches(found)}", flush=True)


if __name__ == "__main__":
    tyro.cli(main)
