"""A recipe of the paper's kind as a training: one `Search`, judged on episodes held out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from gamps import evaluation, search
from gamps.learner import Progress
from gamps.policies import Policy
from gamps.search import Search
from gamps.trajectories import Trajectories

LEAST_HELD_OUT = 2.0  # effective episodes that an estimate must rest on


class Climbing:
    """A search, iteration by iteration.

    Args:
      key: all randomness.
      built: from `gamps.search.recipes`.
      policy: where the search starts.
      model: not fitted yet; None for recipes without one.
      iterations: how many.
      judged: episodes held out; the policy with the highest lower estimate on them is handed out.
      least_ess: the training stops by itself once fewer trajectories than this effectively carry
        the gradient.
      run: `search.run`, or what does the same for a log that is not in memory.
    """

    def __init__(
        self,
        key: Key[Array, ""],
        built: Search,
        policy: Policy,
        model: Any,
        *,
        iterations: int,
        judged: Trajectories,
        least_ess: float = 2.0,
        run: Callable[..., Any] = search.run,
    ) -> None:
        self.run = run
        self.key, self.built, self.policy, self.model = key, built, policy, model
        self.total, self.judged, self.least_ess = iterations, judged, least_ess

    def start(self) -> Progress:
        """Before the first iteration; the first policy is the one to beat."""
        return Progress(self.built.init(self.policy, self.model), self.policy, {})

    def like(self, plain: dict[str, Any]) -> Progress:
        """The structure never changes."""
        return self.start()._replace(plain=plain)

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """One iteration of Algorithm 1, and what held-out episodes say about its policy."""
        state, info, _ = self.run(self.built, self.key, progress.state, iterations=1)
        names = ("gradient_norm", "model_loss", "ess", "pareto_k", "weights_ess")
        metrics = {name: float(np.asarray(getattr(info, name))[0]) for name in names}
        best, plain = progress.best, progress.plain
        if "best" not in plain:
            lower = self._judged(progress.state.policy)["lower"]
            plain = plain | {"best": 0} | ({"best_lower": lower} if np.isfinite(lower) else {})
        metrics |= self._judged(state.policy)
        if metrics["lower"] > plain.get("best_lower", -np.inf):
            best = state.policy
            plain = plain | {"best_lower": metrics["lower"], "best": int(state.iteration)}
        if metrics["ess"] < self.least_ess:
            plain = plain | {
                "stopped": f"the gradient rests on {metrics['ess']:.1f} effective trajectories, "
                f"fewer than {self.least_ess:g}: further steps would follow noise"
            }
        return Progress(state, best, plain), metrics

    def _judged(self, policy: Policy) -> dict[str, float]:
        """What held-out episodes say; nothing, where too few of them carry it."""
        found = evaluation.evidence(policy, self.judged, float(self.built.task.discount))
        numbers = evaluation.each(evaluation.self_normalised(found))
        mean, ess = float(numbers.mean()), evaluation.effective(found)
        error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
        lower = mean - error if ess >= LEAST_HELD_OUT else -np.inf
        return {"estimate": mean, "lower": lower, "held_out_ess": ess}
