"""The setup of the Swimmer experiments: one run of one recipe on one log, in the real simulator."""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from gamps import search
from gamps.datasets import collect
from gamps.envs import swimmer
from gamps.models import Ensemble, MLPGaussianModel, Quadratic, concatenated
from gamps.paper import treatments
from gamps.paper.treatments import MODEL_FREE, RECIPES, BaselineName
from gamps.policies import LinearGaussianPolicy
from gamps.search import Search, State
from gamps.search.fitting import EachMember, Minibatches
from gamps.search.importance import Chain, Clip, Window
from gamps.search.values import FittedQ, Imagined, PerDecisionReturn, Regression
from gamps.search.weights import Mixed, RewardWeighted
from gamps.trajectories import Trajectories

Baseline = BaselineName | Literal["regression"]


def baseline_of(name: str) -> Any:
    """Return the baseline by its name; made on demand, so that importing computes nothing."""
    return Regression() if name == "regression" else treatments.BASELINES[name]


ITERATIONS, LEARNING_RATE = 20, 0.008
USES = ("log", "model", "search", "curve", "final")


@dataclass(frozen=True)
class Treatment:
    """All settings of a run that do not follow from the recipe; the defaults are the paper's.

    Attributes:
      baseline: what is subtracted from Q.
      window: the gradient uses ratios of this many last steps; 0 means all.
      weight_window: the same for ω; None uses `window`.
      clip: largest ratio; 0 sets no limit.
      least_ess: the policy stops moving below this effective number of trajectories.
      rollouts: imagined trajectories from each logged pair, `M`.
      horizon: imagined steps; for logged returns, 0 counts all rewards that follow.
      tail: add a fitted Q̂ at the end of the horizon.
      model_rate: learning rate of the model.
      members: number of models in an ensemble.
      clipped: the model sees the action that the actuators let through.
      uniform: share of the fit's weight that is equal for all transitions, whatever ω.
      reward_weighted: ω through the exponential of reward-weighted regression; without `uniform`.
      learning_rate: of the policy.
    """

    baseline: Baseline = "none"
    window: int = 0
    weight_window: int | None = None
    clip: float = 0.0
    least_ess: float = 0.0
    rollouts: int = 20
    horizon: int = 25
    tail: bool = False
    model_rate: float = 2e-4
    members: int = 1
    clipped: bool = False
    reward_weighted: bool = False
    uniform: float = 0.0
    learning_rate: float = LEARNING_RATE

    def changes(self) -> dict[str, Any]:
        """The settings that differ from the paper's; `Treatment(**changes)` is the inverse."""
        plain = Treatment()
        return {k: v for k, v in asdict(self).items() if v != getattr(plain, k)}


def ratio_of(window: int, clip: float) -> Chain:
    """The transformation of log ρ; 0 means all steps, or no largest ratio."""
    parts: list[Any] = [Window(window)] if window else []
    return Chain((*parts, Clip(clip)) if clip else tuple(parts))


def search_of(recipe: str, log: Trajectories, treatment: Treatment) -> Search:
    """The recipe's search on one log."""
    t = treatment
    parts: dict[str, Any] = {
        "baseline": baseline_of(t.baseline),
        "ratio": ratio_of(t.window, t.clip),
        "least_ess": t.least_ess,
        "learning_rate": t.learning_rate,
    }
    if recipe == "pgt":
        parts["values"] = PerDecisionReturn(t.horizon or None)
    if recipe not in MODEL_FREE:
        fit: Any = Minibatches(learning_rate=t.model_rate)
        tail = FittedQ(Quadratic(), samples=2, sweeps=200, ridge=1e-4) if t.tail else None
        parts["values"] = Imagined(rollouts=t.rollouts, horizon=t.horizon, tail=tail)
        parts["fit"] = EachMember(fit) if t.members > 1 else fit
        if t.weight_window is not None:
            parts["weight_ratio"] = ratio_of(t.weight_window, t.clip)
        if recipe == "gamps" and t.reward_weighted:
            parts["weighting"] = RewardWeighted()
        elif recipe == "gamps" and t.uniform:
            parts["weighting"] = Mixed(uniform=t.uniform)
    return RECIPES[recipe](log, swimmer.task(), **parts)


def model_of(key: Array, log: Trajectories, treatment: Treatment) -> Any:
    """The paper's network, standardised by the log."""
    features = swimmer.clipped if treatment.clipped else concatenated

    def member(key: Array) -> MLPGaussianModel:
        return MLPGaussianModel.create(key, log, hidden=(32, 32), features=features)

    if treatment.members == 1:
        return member(key)
    keys = jax.random.split(key, treatment.members)
    return Ensemble(eqx.filter_vmap(member)(keys), treatment.members)


@lru_cache(maxsize=2)
def log_of(seed: int, episodes: int, std: float) -> Trajectories:
    """The log of a seed, the same for all recipes; cached, because they run one after the other."""
    key = jax.random.split(jax.random.key(seed), len(USES))[USES.index("log")]
    return collect(swimmer.ID, swimmer.policy(std), key, n=episodes, steps=swimmer.HORIZON)


def run(
    recipe: str,
    seed: int,
    treatment: Treatment,
    *,
    episodes: int = 100,
    iterations: int = ITERATIONS,
    curve_episodes: int = 5,
    final_episodes: int = 20,
    std: float = 0.5,
) -> dict[str, Any]:
    """One recipe on the log of one seed: undiscounted returns in the simulator.

    Returns:
      The return after every iteration, the final policy's with more episodes and with its mean
      action, and what the search reported.
    """
    keys = dict(zip(USES, jax.random.split(jax.random.key(seed), len(USES)), strict=True))
    log = log_of(seed, episodes, std)
    built = search_of(recipe, log, treatment)
    model = None if recipe in MODEL_FREE else model_of(keys["model"], log, treatment)
    state = built.init(swimmer.policy(std), model)
    _, info, weights = search.run(
        built, keys["search"], state, iterations=iterations, measure=_weights
    )
    from_start = np.concatenate([np.zeros_like(weights[:1]), weights])
    return {
        "curve": [evaluate(w, keys["curve"], curve_episodes, std) for w in from_start],
        "final": evaluate(weights[-1], keys["final"], final_episodes, std),
        "mean_action": evaluate(weights[-1], keys["final"], final_episodes // 2, 0.0),
        "ess": info.ess.tolist(),
        "weights_ess": info.weights_ess.tolist(),
        "model_loss": info.model_loss.tolist(),
        "weights": weights[-1].tolist(),
    }


def evaluate(weights: np.ndarray, key: Array, n: int, std: float = 0.5) -> float:
    """Mean return of `n` fresh episodes in the simulator; std 0 means the mean action."""
    log_std = jnp.full(swimmer.ACTIONS, math.log(max(std, 1e-12)), dtype=float)
    policy = LinearGaussianPolicy(jnp.asarray(weights), log_std=log_std, learn_std=False)
    fresh = collect(swimmer.ID, policy, key, n=n, steps=swimmer.HORIZON)
    return float(fresh.rewards.sum(axis=1).mean())


def _weights(state: State) -> Array:
    policy: Any = state.policy
    return policy.weights
