"""Treat the logs of several known policies as one: the balance heuristic (Veach and Guibas, 1995).

Each step's density becomes that of the mixture of all loggers, given what came before it. The
product over an episode's first steps is then Σ_k α_k Π π_k(a|s), where α_k is a logger's share of
the episodes. Every estimator that uses ratios works with it unchanged. An episode that one logger
draws rarely and another often no longer has a large ratio.

This is for loggers that were fixed beforehand. If each one was chosen from the episodes of those
before it, the mixture depends on the data, and estimates are biased. In that case judge by every
episode's own density, as `gamps next` does.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gamps.errors import SettingError
from gamps.policies import Policy, log_probs
from gamps.trajectories import Trajectories


def balanced(
    trajectories: Trajectories, loggers: Sequence[Policy], episodes: Sequence[int]
) -> Trajectories:
    """Return the same episodes with the densities of the mixture of their loggers.

    Args:
      trajectories: the episodes of all loggers.
      loggers: the policies that made them.
      episodes: how many episodes each logger made.

    Raises:
      SettingError: if the numbers do not add up to the episodes of the log.
    """
    if len(loggers) != len(episodes) or sum(episodes) != trajectories.n_trajectories:
        problem = (
            f"{list(episodes)} for {len(loggers)} loggers, {trajectories.n_trajectories} in total"
        )
        raise SettingError("episodes", problem, "Say how many episodes each logger made")
    shares = np.log(np.asarray(episodes, float) / sum(episodes))
    each = jnp.stack([_log_probs(logger, trajectories) for logger in loggers])
    each = jnp.where(trajectories.mask, each, 0.0)
    so_far = jnp.cumsum(each, axis=-1) + jnp.asarray(shares, each.dtype)[:, None, None]
    mixture = jax.nn.logsumexp(so_far, axis=0)
    before = jnp.pad(mixture, ((0, 0), (1, 0)))[:, :-1]  # shares add up to one
    densities = jnp.where(trajectories.mask, mixture - before, 0.0)
    mixed: Trajectories = eqx.tree_at(lambda t: t.behaviour_log_prob, trajectories, densities)
    return mixed


_log_probs = eqx.filter_jit(log_probs)
