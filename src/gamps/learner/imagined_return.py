"""The return that an ensemble predicts for a policy, from whole imagined episodes."""

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

STARTS = 2_000  # first states that episodes are imagined from; of more, evenly spaced ones


def worth(
    key: Key[Array, ""],
    policy: Policy,
    model: Ensemble,
    task: Task,
    starts: Trajectories,
    border: Border | None = None,
) -> float:
    """The imagined return from the logged starts, averaged over members."""
    horizon = counted_steps(starts.n_steps, float(task.discount))
    by_member = _by_member(key, policy, model, task, starts, border, horizon)
    return float(np.mean(by_member, dtype=float))


def promised(before: float, after: float, shown: float) -> float:
    """The imagined return of a policy, minus the models' error on the policy that they know best.

    The log shows what the start earned. Models that are off by some amount there are off by at
    least as much elsewhere, so no smaller gain is believed.

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
    firsts = log.states[:: -(-log.n_trajectories // STARTS), 0]
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
