"""What a value estimator returns."""

from typing import NamedTuple

from jaxtyping import Array, Float


class Values(NamedTuple):
    """Values along the logged trajectories.

    Attributes:
      weighted_q_values: `[N, T]`, γ^t ρ_{0:t} Q(s_t, a_t) on the scale that
        `importance.exponentiate` took out. Ratio and value come as one product: the ratios of a
        logged return continue past `t`, and only the product stays finite if they are extreme.
      state_values: `[N, T]`, V(s_t), or None if the estimator has none. If nothing uses it, the
        compiler drops it and it is not computed.
    """

    weighted_q_values: Float[Array, "N T"]
    state_values: Float[Array, "N T"] | None = None
