"""What an ensemble thinks of a policy: whole imagined episodes, member by member."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps.models import Ensemble
from gamps.policies import Policy
from gamps.search.values.rollouts import draw, returns
from gamps.tasks import Task
from gamps.trajectories import Trajectories


def worth(
    key: Key[Array, ""], policy: Policy, model: Ensemble, task: Task, starts: Trajectories
) -> tuple[float, float]:
    """Imagined return from the logged starts: the members' mean, and that less their deviation.

    Of the mean action, which is what will be deployed.
    """
    silent = jnp.full_like(policy.log_std, -jnp.inf)  # type: ignore[attr-defined]
    policy = eqx.tree_at(lambda p: p.log_std, policy, silent)
    each = np.asarray(_by_member(key, policy, model, task, starts), float)
    mean, std = float(each.mean()), float(each.std(ddof=1))
    return mean, mean - std


@eqx.filter_jit
def _by_member(
    key: Array, policy: Policy, model: Ensemble, task: Task, log: Trajectories
) -> Float[Array, "K"]:
    firsts, horizon = log.states[:, 0], log.n_steps
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
        return jnp.mean(returns(policy, alone, task, noise, states))

    return jax.lax.map(one, eqx.filter(model.members, eqx.is_array))
