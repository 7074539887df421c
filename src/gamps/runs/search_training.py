"""Train with one of the paper's recipes: one `Search`, judged on held-out episodes."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Array, Key

from gamps import evaluation
from gamps.learner import Progress, RunState
from gamps.models import Quality
from gamps.policies import Policy
from gamps.search import Search
from gamps.search import run as run_search
from gamps.trajectories import Trajectories

LEAST_HELD_OUT = 2.0  # fewest effective episodes for an estimate


class SearchTraining:
    """A search, iteration by iteration.

    Args:
      key: source of all randomness.
      search: from `gamps.search.recipes`.
      policy: where the search starts.
      model: not fitted yet; None for recipes without one.
      iterations: number of iterations.
      held_out: episodes that the search does not see; the policy with the highest estimate on
        them, less its error, is handed out.
      least_ess: the training stops by itself once the gradient rests on fewer effective
        trajectories than this.
      run: `search.run`, or its equivalent for a log that is not in memory.
    """

    def __init__(
        self,
        key: Key[Array, ""],
        search: Search,
        policy: Policy,
        model: Any,
        *,
        iterations: int,
        held_out: Trajectories,
        least_ess: float = 2.0,
        run: Callable[..., Any] = run_search,
    ) -> None:
        self.run, self.task = run, search.task
        self.controller: Policy = policy  # the search may start at a better one
        self.outcomes: Quality | None = None
        self.key, self.search, self.policy, self.model = key, search, policy, model
        self.total, self.held_out, self.least_ess = iterations, held_out, least_ess

    def start(self) -> Progress:
        """Return the progress before the first iteration; the first policy is the one to beat."""
        return Progress(self.search.init(self.policy, self.model), self.policy)

    def like(self, run: RunState) -> Progress:
        """Return a progress with this state; the structure never changes."""
        return self.start()._replace(run=run)

    def step(self, progress: Progress) -> tuple[Progress, dict[str, float]]:
        """Run one iteration of Algorithm 1, and judge its policy on the held-out episodes."""
        state, info, _ = self.run(self.search, self.key, progress.state, iterations=1)
        names = ("gradient_norm", "model_loss", "ess", "pareto_k", "weights_ess")
        metrics = {name: float(np.asarray(getattr(info, name))[0]) for name in names}
        best, run = progress.best, progress.run
        if run.best is None:
            promise = self._judge(progress.state.policy)["promise"]
            run = run._replace(best=0, best_promise=promise if np.isfinite(promise) else None)
        metrics |= self._judge(state.policy)
        if metrics["promise"] > (-np.inf if run.best_promise is None else run.best_promise):
            best = state.policy
            run = run._replace(best=int(state.iteration), best_promise=metrics["promise"])
        if metrics["ess"] < self.least_ess:
            run = run._replace(
                stopped=f"the gradient rests on {metrics['ess']:.1f} effective trajectories, "
                f"fewer than {self.least_ess:g}: further steps would follow noise"
            )
        return Progress(state, best, run), metrics

    def _judge(self, policy: Policy) -> dict[str, float]:
        """Judge a policy on the held-out episodes; promise nothing if too few are effective."""
        evidence = evaluation.evidence(policy, self.held_out, float(self.search.task.discount))
        numbers = evaluation.each(evaluation.self_normalised(evidence))
        mean, ess = float(numbers.mean()), evaluation.effective(evidence)
        error = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
        promise = mean - error if ess >= LEAST_HELD_OUT else -np.inf
        return {"estimate": mean, "promise": promise, "held_out_ess": ess}
