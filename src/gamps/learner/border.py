"""Where imagined episodes end: beyond the range of the log, at a distance set by its own policy.

A model cannot be trusted where the log has never been; but if it is kept inside, it can never fall.
The logging policy tells how far outside is too far: in the models it should leave only seldom.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gamps._utils.noise import normal
from gamps.evaluation.fitted_q import returns_to_go
from gamps.models import Ensemble
from gamps.policies import Policy
from gamps.search.values import Border
from gamps.tasks import Task
from gamps.trajectories import Trajectories, flat

WIDTHS = np.geomspace(1e-3, 10.0, 41)  # candidates, as shares of the range
STARTS = 500


def draw_border(
    key: Key[Array, ""],
    policy: Policy,
    model: Ensemble,
    task: Task,
    log: Trajectories,
    *,
    steps: int,
    seldom: float,
) -> Border:
    """Return the narrowest border that the logging policy seldom meets within `steps` steps.

    Args:
      key: for states and noise.
      policy: the policy that made the log.
      model: the models that imagine trajectories.
      task: a trajectory that it terminates does not count as ended by the border.
      log: gives the starting states, and the lowest return.
      steps: length of an imagined trajectory.
      seldom: the largest share of the logging policy's trajectories that may end at the border.
    """
    beyond = np.asarray(_beyond(key, policy, model, task, log, steps), float)
    ended = [1 - np.exp(-((beyond / width) ** 2).sum(axis=0)).mean() for width in WIDTHS]
    enough = [width for width, share in zip(WIDTHS, ended, strict=True) if share <= seldom]
    width = enough[0] if enough else WIDTHS[-1]
    low = min(float(returns_to_go(log, float(task.discount)).min()), 0.0)
    return Border(jnp.asarray(low), jnp.asarray(width))


@eqx.filter_jit
def _beyond(
    key: Array, policy: Policy, model: Ensemble, task: Task, log: Trajectories, steps: int
) -> Float[Array, "steps starts"]:
    key_state, key_noise = jax.random.split(key)
    mask = flat(log.mask)
    rows = jax.random.choice(key_state, len(mask), (STARTS,), p=mask / jnp.sum(mask))
    states = flat(log.states)[rows].astype(jnp.result_type(float))
    first = policy.noise_size
    noise = normal(key_noise, (steps, STARTS, first + model.noise_size), states.dtype)

    def advance(state: Array, noise: Array) -> tuple[Array, Array, Array]:
        action = policy.act(state, noise[:first])
        following, beyond = model.step_and_beyond(state, action, noise[first:])
        following = following.astype(state.dtype)
        return following, beyond, task.terminal(state, action, following)

    def step(carry: tuple[Array, Array], noise: Array) -> tuple[tuple[Array, Array], Array]:
        states, alive = carry
        states, beyond, ends = jax.vmap(advance)(states, noise)
        return (states, alive & ~ends), jnp.where(alive, beyond, 0.0)

    return jax.lax.scan(step, (states, jnp.ones(STARTS, bool)), noise)[1]
