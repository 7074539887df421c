"""The same rollouts in PyTorch, eager; run as a script by a Python that has it.

Reads arrays from the .npz file named first, prints {"arrangement": seconds} as JSON. Imports
nothing of the library, since PyTorch lives in an environment of its own. It is given every
arrangement that the library has: by rows or by columns, fresh or shared noise, several blocks.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]

DISCOUNT, CONTROL_COST, OBSERVATIONS, ACTIONS = 0.99, 1e-4, 8, 2


def rows(p: dict[str, Any], rollouts: int, horizon: int, block: int, noise: Any) -> Any:
    """A layer is a matrix of rows times weights; noise `[H, block, n]`, or drawn if None."""
    w = [p[f"weights{i}"].T.contiguous() for i in range(3)]
    b = [p[f"biases{i}"][:, 0] for i in range(3)]
    gain, offset, std = p["gain"].T.contiguous(), p["offset"][:, 0], p["std"][:, 0]
    found = []
    size = block // rollouts
    for states, actions in zip(p["states"].split(size), p["actions"].split(size), strict=True):
        state = states.repeat_interleave(rollouts, 0)
        action = actions.repeat_interleave(rollouts, 0)
        total, discount = torch.zeros(len(state)), 1.0
        for t in range(horizon):
            z = noise[0][t, : len(state)] if noise else torch.randn_like(state)
            hidden = torch.addmm(b[0], torch.cat([state, action], 1), w[0]).tanh_()
            hidden = torch.addmm(b[1], hidden, w[1]).tanh_()
            mean, log_std = torch.addmm(b[2], hidden, w[2]).chunk(2, 1)
            following = state + mean + log_std.exp() * z
            gained = 0.5 * (state[:, 3] + following[:, 3]) - CONTROL_COST * (action**2).sum(1)
            total += discount * gained
            z = noise[1][t, : len(state)] if noise else torch.randn_like(action)
            action = torch.addmm(offset, following, gain) + std * z
            state, discount = following, discount * DISCOUNT
        found.append(total.reshape(-1, rollouts).mean(1))
    return torch.cat(found)


def columns(p: dict[str, Any], rollouts: int, horizon: int, block: int, noise: Any) -> Any:
    """A layer is weights times a matrix of columns; noise `[H, n, block]`, or drawn if None."""
    w, b = ([p[f"{name}{i}"] for i in range(3)] for name in ("weights", "biases"))
    gain, offset, std = p["gain"], p["offset"], p["std"]
    found = []
    size = block // rollouts
    for states, actions in zip(p["states"].split(size), p["actions"].split(size), strict=True):
        state = states.T.repeat_interleave(rollouts, 1)
        action = actions.T.repeat_interleave(rollouts, 1)
        width = state.shape[1]
        total, discount = torch.zeros(width), 1.0
        for t in range(horizon):
            z = noise[0][t, :, :width] if noise else torch.randn_like(state)
            hidden = torch.addmm(b[0], w[0], torch.cat([state, action])).tanh_()
            hidden = torch.addmm(b[1], w[1], hidden).tanh_()
            mean, log_std = torch.addmm(b[2], w[2], hidden).chunk(2)
            following = state + mean + log_std.exp() * z
            gained = 0.5 * (state[3] + following[3]) - CONTROL_COST * (action**2).sum(0)
            total += discount * gained
            z = noise[1][t, :, :width] if noise else torch.randn_like(action)
            action = torch.addmm(offset, gain, following) + std * z
            state, discount = following, discount * DISCOUNT
        found.append(total.reshape(-1, rollouts).mean(1))
    return torch.cat(found)


def main() -> None:
    """Time each arrangement: once to warm up, then the best of some repeats in turns."""
    path, rollouts, horizon, repeats = sys.argv[1], *map(int, sys.argv[2:5])
    p = {name: torch.from_numpy(values) for name, values in np.load(path).items()}
    torch.set_grad_enabled(False)
    full = len(p["states"]) * rollouts
    best: dict[str, float] = {}
    for repeat in range(repeats + 1):
        for size in sorted({min(size, full) for size in (2_000, 4_000, 10_000, 50_000)}):
            by_rows = tuple(torch.randn(horizon, size, n) for n in (OBSERVATIONS, ACTIONS))
            by_columns = tuple(torch.randn(horizon, n, size) for n in (OBSERVATIONS, ACTIONS))
            for name, run, noise in (
                ("rows, fresh noise", rows, None),
                ("rows, shared noise", rows, by_rows),
                ("columns, fresh noise", columns, None),
                ("columns, shared noise", columns, by_columns),
            ):
                start = time.perf_counter()
                run(p, rollouts, horizon, size, noise)
                seconds = time.perf_counter() - start
                label = f"{name}, blocks of {size}"
                best[label] = (
                    min(best.get(label, float("inf")), seconds) if repeat else float("inf")
                )
    print(json.dumps(best))


if __name__ == "__main__":
    main()
