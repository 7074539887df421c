"""Train the controller of a robot that its logs are made with. Runs in an environment of its own.

Usage: python benchmarks/robots/controller.py Hopper-v5, where SAC of sbx is installed: python -m
venv ROBOTS, then ROBOTS/bin/pip install -r benchmarks/robots/requirements.txt. Training stops at
the first look that finds the mean action worth a third of the way from nothing learned to a good
return. What is left is Hopper-v5.safetensors beside this file: the layers of the actor, tanh after
each, and in its header what it was worth and the command.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import flax.linen as nn
import gymnasium
import numpy as np
from safetensors.numpy import save_file
from sbx import SAC
from sbx.common.policies import SquashedGaussianActor

HERE = Path(__file__).parent
# What one that does nothing or little is worth, what a good one is, and steps between looks; what
# a unit of entropy is worth, and whether critics normalise (by itself and so, Hopper stays at its
# first hop).
KNOWN = {
    "Hopper-v5": (20.0, 3_300.0, 2_500, 0.2, False),
    "HalfCheetah-v5": (-280.0, 10_000.0, 2_500, "auto", True),
    "Reacher-v5": (-11.5, -4.0, 500, "auto", True),
}
WIDTHS = (64, 64)
MOST = 200_000  # steps
LOOKS = 10  # episodes each


def worth(model: Any, name: str, steps: int | None = None, looks: int = LOOKS) -> np.ndarray:
    """Returns of the mean action from starts of their own, cut off after `steps` if given."""
    env, returns = gymnasium.make(name, max_episode_steps=steps), []
    for seed in range(looks):
        observation, _ = env.reset(seed=10_000 + seed)
        total, over = 0.0, False
        while not over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, ended, cut, _ = env.step(action)
            total, over = total + float(reward), ended or cut
        returns.append(total)
    return np.asarray(returns)


def actor(action_dim: int, net_arch: list[int], activation_fn: Any) -> Any:
    """As sbx has it, with tanh in place of the critic's activation."""
    del activation_fn
    return SquashedGaussianActor(action_dim=action_dim, net_arch=net_arch, activation_fn=nn.tanh)


def main(name: str) -> None:
    """Train until it is a third of the way up, and write the actor."""
    least, good, each, entropy, normalised = KNOWN[name]
    model = SAC(
        "MlpPolicy", gymnasium.make(name), seed=0, learning_starts=min(each, 2_000),
        ent_coef=entropy,
        policy_kwargs={"net_arch": {"pi": list(WIDTHS), "qf": [256, 256]}, "actor_class": actor,
                       "layer_norm": normalised},
    )  # fmt: skip
    for steps in range(each, MOST + 1, each):
        model.learn(each, reset_num_timesteps=False)
        returns = worth(model, name)
        share = float((returns.mean() - least) / (good - least))
        print(f"{steps} steps: {returns.mean():.1f} ± {returns.std():.1f}, {share:.0%}", flush=True)
        if share >= 1 / 3:
            break
    layers = model.policy.actor_state.params["params"]
    arrays = {
        f"{i}.{kind}": np.ascontiguousarray(np.asarray(layers[f"Dense_{i}"][key]).T)
        for i in range(len(WIDTHS) + 1)
        for kind, key in (("weight", "kernel"), ("bias", "bias"))
    }
    command = f"python benchmarks/robots/controller.py {name}"
    made = {"env": name, "command": command, "steps": steps, "return": float(returns.mean()),
            "std": float(returns.std()), "share": share}  # fmt: skip
    save_file(arrays, HERE / f"{name}.safetensors", metadata={"made": json.dumps(made)})


if __name__ == "__main__":
    main(sys.argv[1])
