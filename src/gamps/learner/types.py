"""What the default is set by, what it carries along, and what it hands out."""

import math
from typing import Any, NamedTuple

from gamps import search
from gamps.evaluation import Rung
from gamps.policies import Policy


class Settings(NamedTuple):
    """What is the same in every problem.

    Attributes:
      rounds: of choosing, fitting and climbing.
      iterations: policy steps a round.
      learning_rate: in natural units, falling to a tenth over all rounds.
      first_std: of the policy, relative to the behaviour's standard deviation.
      least_std: the same at the end.
      states: logged states an iteration.
      actions: fresh ones at each.
      roll: imagined steps that states are moved on, at most.
      horizon: imagined steps of a value.
      members: of the ensemble.
      pessimism: what one unit of doubt costs, in standard deviations of the logged rewards.
      largest_kl: of one step.
      exponents: β to choose from; the first is preferred unless another is better for sure.
      folds: parts of the log that are held out in turn, for evidence.
      window: steps of the ratio in ω.
    """

    rounds: int = 4
    iterations: int = 40
    learning_rate: float = 0.06
    first_std: float = 0.5
    least_std: float = 0.25
    states: int = 200
    actions: int = 16
    roll: int = 50
    horizon: int = 50
    members: int = 5
    pessimism: float = 0.0
    largest_kl: float = 0.5
    exponents: tuple[float, ...] = (0.0, 0.5, 1.0)
    folds: int = 5
    window: int = 3


class Candidate(NamedTuple):
    """A model class and an exponent β of ω that evidence compared with others.

    Attributes:
      model_class: its name.
      exponent: β.
      log_likelihood: ω-weighted, of held-out trajectories.
    """

    model_class: str
    exponent: float
    log_likelihood: float


class Round(NamedTuple):
    """What a round decided and found.

    Attributes:
      model_class: chosen.
      exponent: β, chosen.
      evidence: every candidate; none where nothing was left to choose.
      weights_ess: effective number of transitions in the fit.
      estimate: mean imagined return of the policy after the round.
      promise: the estimate less the members' standard deviation; the models' opinion of a policy
        that was made to please them, and no bound.
    """

    model_class: str
    exponent: float
    evidence: tuple[Candidate, ...]
    weights_ess: float
    estimate: float = math.nan
    promise: float = math.nan


class RunState(NamedTuple):
    """Decisions and findings of a training so far, such as JSON holds.

    Attributes:
      best: the round, or the iteration of a recipe, whose policy would be handed out; 0 is the
        start, None before anything was compared.
      best_promise: what is promised of that policy's return; None where nothing is.
      stopped: why the training ended by itself; empty while it goes on.
      now: the round under way, its estimate still open.
      rounds: those that are finished.
    """

    best: int | None = None
    best_promise: float | None = None
    stopped: str = ""
    now: Round | None = None
    rounds: tuple[Round, ...] = ()


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
      policy: the best; each round's is compared with the best so far, by the models of the round.
      ladder: policies on the way to it, the nearest to the logging one first: what
        `gamps.evaluate` is to judge, by episodes that were not learned from.
      chosen: which round, from zero; -1 if none is thought better than the start, which is handed
        out then.
      rounds: all of them.
      policies: the policy after each round.
      model: of the last round.
    """

    policy: Policy
    ladder: tuple[Rung, ...]
    chosen: int
    rounds: list[Round]
    policies: list[Policy]
    model: Any
