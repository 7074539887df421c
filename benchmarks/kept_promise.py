"""Does a certificate keep its word? What a run has certified, in the plant that its log is of.

    python -m benchmarks.kept_promise RUN    # of two tanks: the quickstart's, the tutorials'

Fails if the certified policy's true improvement, by fresh episodes in which both policies meet the
same luck, is not above the bound.
"""

import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gamps.envs import TwoTanks, collect, tanks
from gamps.policies import Policy
from gamps.runs.certificate import certified
from gamps.runs.open_run import open_run

FRESH = 20_000


@eqx.filter_jit
def returns(policy: Policy, steps: int) -> Any:
    """Discounted, of fresh episodes."""
    log = collect(TwoTanks(), policy, jax.random.key(1), n=FRESH, steps=steps)
    return log.rewards @ tanks.DISCOUNT ** jnp.arange(steps)


def main() -> None:
    """Of one run folder."""
    sys.path.insert(0, "")  # the task may be a file here, as for gamps itself
    run = Path(sys.argv[1])
    opened = open_run(run)
    policy, certificate = certified(run, opened.ends)
    steps = opened.held_out.n_steps
    gains = np.asarray(returns(policy, steps) - returns(tanks.policy(), steps), np.float64)
    bound, error = certificate["improvement"]["low"], gains.std() / FRESH**0.5
    print(f"bound {bound:.2f}, true improvement {gains.mean():.2f} ± {error:.2f}")
    if gains.mean() <= bound:
        sys.exit("the true improvement is not above the bound")


if __name__ == "__main__":
    main()
