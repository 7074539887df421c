"""The same iteration in PyTorch, eager; run as a script by a Python that has it.

Reads arrays from the .npz file named first, prints {"seconds": {arrangement: …}, "gradient": […]}
as JSON. Imports nothing of the library, since PyTorch lives in an environment of its own. Scores
are in closed form, which no autograd is faster than; rollouts go by columns in several sizes of
blocks, with noise that is drawn once an iteration for two thousand columns and shared by all.
"""

import json
import math
import sys
import time
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found]

DISCOUNT, CONTROL_COST, OBSERVATIONS, ACTIONS = 0.99, 1e-4, 8, 2
PASSES, RIDGE, LEAST_SHARE, SMALLEST = 4, 1e-6, 0.25, 1e-9
UNBIASED, HALF_LOG_TAU = math.sqrt(math.pi / 2), 0.5 * math.log(2 * math.pi)
LEARNING_RATE, DECAYS, EPSILON = 0.02, (0.9, 0.999), 1e-8
ROWS, COLUMNS = torch.triu_indices(OBSERVATIONS + ACTIONS + 1, OBSERVATIONS + ACTIONS + 1)
FEATURES = len(ROWS)


def gathered(x: Any, out: Any) -> Any:
    """All products of two rows of (1, s, a), picked by their numbers."""
    return torch.mul(x.index_select(0, ROWS), x.index_select(0, COLUMNS), out=out)


def sliced(x: Any, out: Any) -> Any:
    """The same, one row times all that follow, written in place."""
    start = 0
    for i in range(len(x)):
        torch.mul(x[i:], x[i], out=out[start : start + len(x) - i])
        start += len(x) - i
    return out


def draw(horizon: int, block: int, rollouts: int) -> tuple[Any, Any]:
    """Half of the noise is the other half negated."""

    def normal(size: int) -> Any:
        half = torch.randn(horizon, size, block // rollouts, rollouts // 2)
        return torch.cat([half, -half], -1).reshape(horizon, size, block)

    return normal(OBSERVATIONS), normal(ACTIONS)


def regress(gram: Any, moments: Any) -> Any:
    """Least squares with a ridge relative to the diagonal; any leading axes."""
    unit = gram.diagonal(dim1=-2, dim2=-1).sqrt()[..., None]
    scaled = gram / unit / unit.mT + RIDGE * torch.eye(FEATURES)
    return torch.linalg.solve(scaled, moments / unit) / unit


def fit(p: dict[str, Any], omega: Any, features: Any) -> tuple[Any, Any, Any, Any]:
    """Four passes of weighted least squares, and the loss."""
    n = len(omega)
    x = torch.cat([torch.ones(1, n), p["states"].T, p["actions"].T])
    phi = features(x, torch.empty(FEATURES, n))
    differences = (p["following"] - p["states"]).T
    mean, std, least = p["model_mean"], p["model_std"], p["model_least"]
    used = omega / omega.max()
    weighted = phi * used
    gram, scaled = weighted @ phi.T, torch.empty_like(phi)
    for _ in range(PASSES):
        precision = torch.maximum(std.T @ phi, least[:, None]).pow_(-2)
        apart = (differences - mean.T @ phi).abs_()
        precise = torch.stack([torch.mul(weighted, w, out=scaled) @ phi.T for w in precision])
        moments = (precision * differences) @ weighted.T
        mean = regress(precise, moments[..., None])[..., 0].T
        std = UNBIASED * regress(gram, weighted @ apart.T)
        least = (LEAST_SHARE * UNBIASED * (apart @ used) / used.sum()).clamp_(min=SMALLEST)
    deviation = torch.maximum(std.T @ phi, least[:, None])
    z = (differences - mean.T @ phi) / deviation
    cost = (0.5 * z * z + deviation.log()).sum(0) + OBSERVATIONS * HALF_LOG_TAU
    return mean, std, least, omega @ cost / omega.sum()


def q_values(
    p: dict[str, Any], model: Any, noise: Any, rollouts: int, block: int, features: Any
) -> Any:
    """Mean return from every logged pair; noise `[H, n, columns]`, repeated to the block's."""
    mean, std, least, _ = model
    both = torch.cat([mean, std], 1).T.contiguous()
    gain, offset = p["weights"][:-1].T.contiguous(), p["weights"][-1][:, None]
    deviation = p["log_std"].exp()[:, None]
    times = block // noise[0].shape[-1]
    z_model, z_policy = (z.repeat(1, 1, times) for z in noise)
    z_policy = offset + deviation * z_policy
    found, size = [], block // rollouts
    for states, actions in zip(p["states"].split(size), p["actions"].split(size), strict=True):
        width = len(states) * rollouts
        x = torch.ones(1 + OBSERVATIONS + ACTIONS, width)
        state, action = x[1 : 1 + OBSERVATIONS], x[1 + OBSERVATIONS :]
        state.copy_(states.T.repeat_interleave(rollouts, 1))
        action.copy_(actions.T.repeat_interleave(rollouts, 1))
        phi, out = torch.empty(FEATURES, width), torch.empty(2 * OBSERVATIONS, width)
        total, discount = torch.zeros(width), 1.0
        for z, push in zip(z_model[..., :width], z_policy[..., :width], strict=True):
            torch.mm(both, features(x, phi), out=out)
            spread = torch.maximum(out[OBSERVATIONS:], least[:, None])
            total.add_(state[3], alpha=0.5 * discount)
            state.add_(out[:OBSERVATIONS]).addcmul_(spread, z)
            total.add_(state[3], alpha=0.5 * discount)
            total.sub_((action * action).sum(0), alpha=CONTROL_COST * discount)
            torch.addmm(push, gain, state, out=action)
            discount *= DISCOUNT
        found.append(total.reshape(-1, rollouts).mean(1))
    return torch.cat(found)


def iterate(p: dict[str, Any], noise: Any, rollouts: int, block: int, features: Any) -> Any:
    """One iteration from the start; the gradient, and what else an iteration gives."""
    n, steps = p["behaviour_log_prob"].shape
    inputs = torch.nn.functional.pad(p["states"], (0, 1), value=1.0)
    std = p["log_std"].exp()
    z = (p["actions"] - inputs @ p["weights"]) / std
    log_prob = (-0.5 * z * z - p["log_std"] - HALF_LOG_TAU).sum(1)
    log_rho = (log_prob.reshape(n, steps) - p["behaviour_log_prob"]).cumsum(1)
    discounted = log_rho + torch.arange(steps) * math.log(DISCOUNT)
    log_scale = discounted.max()
    rho = (discounted - log_scale).exp()

    pull, spread = z / std, z * z - 1
    squares = (inputs**2).sum(1) * (pull**2).sum(1) + (spread**2).sum(1)
    omega = (rho * squares.sqrt().reshape(n, steps).cumsum(1)).flatten()
    model = fit(p, omega, features)
    values = q_values(p, model, noise, rollouts, block, features)

    advantages = (rho.flatten() * values)[:, None] * (log_scale.exp() / n)
    gradient = [inputs.T @ (advantages * pull), (advantages * spread).sum(0)]
    new = []
    for parameter, g in zip((p["weights"], p["log_std"]), gradient, strict=True):
        first, second = (1 - DECAYS[0]) * g, (1 - DECAYS[1]) * g * g
        size = (second / (1 - DECAYS[1])).sqrt() + EPSILON
        new.append(parameter + LEARNING_RATE * first / (1 - DECAYS[0]) / size)
    whole = (log_rho[:, -1] - log_rho[:, -1].max()).exp()
    ess = [(w.sum() ** 2 / (w * w).sum()).item() for w in (whole, omega)]
    return gradient, new, ess


def main() -> None:
    """Time each arrangement: once to warm up, then the best of some repeats in turns."""
    path, rollouts, repeats = sys.argv[1], *map(int, sys.argv[2:4])
    p = {name: torch.from_numpy(values) for name, values in np.load(path).items()}
    torch.set_grad_enabled(False)
    torch.set_default_dtype(p["states"].dtype)
    given = p["noise_model"], p["noise_policy"]
    horizon, _, least = given[0].shape
    full = len(p["states"]) * rollouts
    best: dict[str, float] = {}
    for repeat in range(repeats + 1):
        for times in (1, 2, 5, 20):
            block = times * least
            if times > 1 and block > full:
                continue
            for features in (gathered, sliced):
                start = time.perf_counter()
                iterate(p, draw(horizon, least, rollouts), rollouts, block, features)
                seconds = time.perf_counter() - start
                label = f"{features.__name__} features, blocks of {block}"
                best[label] = (
                    min(best.get(label, float("inf")), seconds) if repeat else float("inf")
                )
    gradient, *_ = iterate(p, given, rollouts, least, gathered)
    print(json.dumps({"seconds": best, "gradient": [g.tolist() for g in gradient]}))


if __name__ == "__main__":
    main()
