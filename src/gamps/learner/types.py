"""The default learner's settings, its state between iterations, and its result."""

from typing import Any, NamedTuple

from gamps import search
from gamps.evaluation import Rung
from gamps.policies import Policy


class Settings(NamedTuple):
    """Settings of the default learner, the same for every problem by default.

    Attributes:
      iterations: policy steps in the models.
      learning_rate: in natural units, falling to a tenth over all iterations.
      first_std: the policy's first standard deviation, relative to the logging policy's.
      least_std: the same at the end.
      trace: λ of the advantages used on the log, before the models.
      clip: clipping of the ratios there; 0 starts in the models at once.
      states: logged states per iteration.
      actions: fresh actions at each state.
      roll: the largest number of imagined steps by which states are moved on.
      horizon: imagined steps for a value.
      members: models in the ensemble.
      border: share of the logging policy's imagined trajectories that may end beyond the range of
        the log; this sets how far beyond. With 0 none end there.
      largest_kl: largest KL divergence of one step.
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
    """Decisions and results of training so far, as JSON values.

    Attributes:
      best: the iteration whose policy would be returned now; 0 is the first policy, None before
        any comparison.
      best_promise: promised return of that policy; None if nothing is promised.
      stopped: why training ended by itself; empty while it continues.
      model_class: name of the ensemble's class; empty without an ensemble or before it is fitted.
      logged: promised return of the policy that climbed on the log alone, which is then the first
        policy; None if that climb gained nothing and the first policy is the one that made the log.
      start: imagined return of the policy that made the log; None before the first estimate.
      estimate: imagined return of the policy.
      promise: the estimate minus the models' error on `start`. It is the models' opinion of a
        policy that was optimised in them, not a bound.
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
    """What training carries from one iteration to the next.

    Attributes:
      state: state of the search, with policy and model.
      best: the policy that would be returned now.
      run: decisions and results so far.
    """

    state: search.State
    best: Policy
    run: RunState = RunState()


class Outcome(NamedTuple):
    """The learned policy, and how it was found.

    Attributes:
      policy: the learned policy.
      ladder: policies on the way to it, the closest to the logging policy first. Pass it to
        `gamps.evaluate`, with episodes that were not learned from.
      last: the policy of the last iteration; it is `policy` unless the first promises more.
      run: decisions and results.
      model: the ensemble.
    """

    policy: Policy
    ladder: tuple[Rung, ...]
    last: Policy
    run: RunState
    model: Any
