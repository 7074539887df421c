"""What an ensemble thinks of a policy: whole imagined episodes, member by member."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps.models import Ensemble
from gamps.policies import Policy
from gamps.search.values.rollouts import Border, draw, returns
from gamps.tasks import Task
from gamps.trajectories import Trajectories, counted_steps


def worth(
    key: Key[Array, ""],
    policy: Policy,
    model: Ensemble,
    task: Task,
    starts: Trajectories,
    border: Border | None = None,
) -> float:
    """Imagined return from the logged starts, the mean over members."""
    horizon = counted_steps(starts.n_steps, float(task.discount))
    by_member = _by_member(key, policy, model, task, starts, border, horizon)
    return float(np.mean(by_member, dtype=float))


def promised(before: float, after: float, shown: float) -> float:
    """What a policy is said to earn, less the models' error on the policy that they know best.

    Of the start the log shows what it earned. Models that are off by so much there are off at
    least by as much elsewhere, and no smaller gain than that is believed.

    Args:
      before: imagined return of the start.
      after: imagined return of the policy.
      shown: logged return of the start.

    Examples:
      >>> promised(12.0, 20.0, 10.0), promised(8.0, 20.0, 10.0)
      (18.0, 18.0)
    """
    return after - abs(before - shown)


@eqx.filter_jit
def _by_member(
    key: Array,
    policy: Policy,
    model: Ensemble,
    task: Task,
    log: Trajectories,
    border: Border | None,
    horizon: int,
) -> Float[Array, "K"]:
    firsts = log.states[:, 0]
    rollouts = max(200 // len(firsts), 1)
    states = jnp.moveaxis(jnp.repeat(firsts, rollouts, axis=0), 0, -1)

    def one(arrays: Any) -> Array:
        alone = model.alone(arrays)
        noise = draw(
            key,
            policy,
            alone,
            starts=states.shape[-1],
            rollouts=1,
            horizon=horizon,
            antithetic=False,
            dtype=states.dtype,
        )
        return jnp.mean(returns(policy, alone, task, noise, states, border=border))

    return jax.lax.map(one, eqx.filter(model.members, eqx.is_array))
