"""What the default is set by, what it carries along, and what it hands out."""

from typing import Any, NamedTuple

from gamps import search
from gamps.evaluation import Rung
from gamps.policies import Policy


class Settings(NamedTuple):
    """What is the same in every problem.

    Attributes:
      iterations: policy steps in the models.
      learning_rate: in natural units, falling to a tenth over all iterations.
      first_std: of the policy, relative to the behaviour's standard deviation.
      least_std: the same at the end.
      trace: of the advantages that are climbed on before the models, λ.
      clip: of the ratios there; 0 starts in the models at once.
      states: logged states an iteration.
      actions: fresh ones at each.
      roll: imagined steps that states are moved on, at most.
      horizon: imagined steps of a value.
      members: of the ensemble.
      border: share of the logging policy's imagined trajectories that end beyond the range of the
        log, which says how far beyond; 0 lets none end there.
      largest_kl: of one step.
    """

    iterations: int = 80
    learning_rate: float = 0.06
    first_std: float = 0.5
    least_std: float = 0.25
    trace: float = 0.6
    clip: float = 0.5
    states: int = 200
    actions: int = 16
    roll: int = 50
    horizon: int = 50
    members: int = 5
    border: float = 0.1
    largest_kl: float = 0.5


class RunState(NamedTuple):
    """Decisions and findings of a training so far, such as JSON holds.

    Attributes:
      best: the iteration whose policy would be handed out; 0 is the first, None before anything
        was compared.
      best_promise: what is promised of that policy's return; None where nothing is.
      stopped: why the training ended by itself; empty while it goes on.
      model_class: of the ensemble, by its name; empty before it is fitted, and without one.
      logged: what is promised of the policy that was climbed on the log alone, which is then the
        first; None where that led nowhere, and the first made the log.
      start: imagined return of the policy that made the log; None before the first look.
      estimate: the same of the policy.
      promise: the estimate, less what the models get wrong of `start`; an opinion of a policy
        that was made to please them, and no bound.
    """

    best: int | None = None
    best_promise: float | None = None
    stopped: str = ""
    model_class: str = ""
    logged: float | None = None
    start: float | None = None
    estimate: float | None = None
    promise: float | None = None


class Progress(NamedTuple):
    """What a training carries from one iteration to the next.

    Attributes:
      state: of the search, with policy and model.
      best: the policy that would be handed out now.
      run: decisions and findings so far.
    """

    state: search.State
    best: Policy
    run: RunState = RunState()


class Outcome(NamedTuple):
    """The policy that was learned, and how it came about.

    Attributes:
      policy: the one to hand out.
      ladder: policies on the way to it, the nearest to the logging one first: what
        `gamps.evaluate` is to judge, by episodes that were not learned from.
      last: the policy of the last iteration; handed out unless more is promised of the first.
      run: decisions and findings.
      model: an ensemble.
    """

    policy: Policy
    ladder: tuple[Rung, ...]
    last: Policy
    run: RunState
    model: Any
