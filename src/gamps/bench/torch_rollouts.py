"""The same rollouts in PyTorch, eager; run as a script by a Python that has it.

Reads arrays from the .npz file named first, prints {"arrangement": seconds} as JSON. Imports
nothing of the library, since PyTorch lives in an environment of its own.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]

DISCOUNT, CONTROL_COST, OBSERVATIONS = 0.99, 1e-4, 8


def run(p: dict[str, Any], rollouts: int, horizon: int, block: int, noise: Any) -> Any:
    """Rollouts by rows, `block` at a time; noise shared by the blocks if given."""
    w = [p[f"weights{i}"].T.contiguous() for i in range(3)]
    b = [p[f"biases{i}"][:, 0] for i in range(3)]
    gain, offset, std = p["gain"].T.contiguous(), p["offset"][:, 0], p["std"][:, 0]
    found = []
    for states, actions in zip(
        p["states"].split(block // rollouts), p["actions"].split(block // rollouts), strict=True
    ):
        state = states.repeat_interleave(rollouts, 0)
        action = actions.repeat_interleave(rollouts, 0)
        total, discount = torch.zeros(len(state)), 1.0
        for t in range(horizon):
            z = noise[0][t, : len(state)] if noise else torch.randn_like(state)
            hidden = torch.tanh(torch.addmm(b[0], torch.cat([state, action], 1), w[0]))
            hidden = torch.tanh(torch.addmm(b[1], hidden, w[1]))
            mean, log_std = torch.addmm(b[2], hidden, w[2]).chunk(2, 1)
            following = state + mean + log_std.exp() * z
            gained = 0.5 * (state[:, 3] + following[:, 3]) - CONTROL_COST * (action**2).sum(1)
            total += discount * gained
            z = noise[1][t, : len(state)] if noise else torch.randn_like(action)
            action = torch.addmm(offset, following, gain) + std * z
            state, discount = following, discount * DISCOUNT
        found.append(total.reshape(-1, rollouts).mean(1))
    return torch.cat(found)


def main() -> None:
    """Time each arrangement, the best of some repeats in turns."""
    path, rollouts, horizon, repeats = sys.argv[1], *map(int, sys.argv[2:5])
    p = {name: torch.from_numpy(values) for name, values in np.load(path).items()}
    torch.set_grad_enabled(False)
    full = len(p["states"]) * rollouts
    sizes = sorted({min(size, full) for size in (2_000, 10_000, 50_000, full)})
    best: dict[str, float] = {}
    for _ in range(repeats):
        for size in sizes:
            shared = tuple(torch.randn(horizon, size, k) for k in (OBSERVATIONS, 2))
            for name, noise in (("fresh noise", None), ("shared noise", shared)):
                start = time.perf_counter()
                run(p, rollouts, horizon, size, noise)
                label = f"{name}, blocks of {size}"
                best[label] = min(best.get(label, float("inf")), time.perf_counter() - start)
    print(json.dumps(best))


if __name__ == "__main__":
    main()
