"""The minigolf of the paper (its appendix "Minigolf"), after Lazaric et al. and Tirinzoni et al.

A ball lies at some distance from the hole. The action is the angular velocity of the putter; the
harder the stroke, the less certain its outcome. Each stroke costs one; one that is too hard runs
over the hole, loses the ball and costs a hundred. The third of the green that is far from the hole
has more friction.

An observation is the distance `[1]`; it is negative when the ball has reached the hole, so that
reward and termination are functions of (s, s'), for real and imagined strokes alike.
"""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from gymnasium.experimental.functional import FuncEnv
from gymnasium.wrappers import TimeLimit
from jax.scipy.stats import norm
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gamps._utils.fields import number
from gamps.envs.adapter import NumpyEnv
from gamps.exact import tabular
from gamps.models import LinearGaussianModel, Model
from gamps.policies import LinearGaussianPolicy, RadialBasis
from gamps.tasks import Task

HORIZON = 20
N_FEATURES = 6


class Minigolf(Model, FuncEnv[Any, Any, Any, Any, Any, Any, Any]):
    """The game, which is its own true model: `step` and `log_prob` are exact.

    Attributes:
      length: length of the green in metres; the ball starts uniformly on it.
      rough: distance at which the far part begins.
      putter: length of the putter.
      hole: diameter of the hole.
      ball: radius of the ball.
      gravity: gravity in m/s².
      near_friction: friction near the hole.
      far_friction: friction beyond `rough`.
      noise: standard deviation of the multiplicative noise, which is clipped to ±1.
      weakest: actions are clipped to at least this.
      strongest: actions are clipped to at most this.
      discount: γ.

    Examples:
      >>> env = Minigolf()
      >>> bool(env.ends(jnp.array([5.0]), jnp.array([1.0]), jnp.array([-0.1])))
      True
    """

    length: Float[Array, "..."] = number(20.0)
    rough: Float[Array, "..."] = number(40 / 3)
    putter: Float[Array, "..."] = number(1.0)
    hole: Float[Array, "..."] = number(0.10)
    ball: Float[Array, "..."] = number(0.02135)
    gravity: Float[Array, "..."] = number(9.81)
    near_friction: Float[Array, "..."] = number(0.131)
    far_friction: Float[Array, "..."] = number(0.19)
    noise: Float[Array, "..."] = number(0.3)
    weakest: Float[Array, "..."] = number(1e-5)
    strongest: Float[Array, "..."] = number(5.0)
    discount: Float[Array, "..."] = number(0.99)

    # Gymnasium declares both spaces as attributes, which a frozen module computes instead.
    @property
    def observation_space(self) -> gymnasium.Space[Any]:  # type: ignore[override]
        """The distance; negative past the edge of the hole."""
        farthest = (2 * self.stroke(self.strongest)) ** 2 / (2 * self.deceleration(jnp.zeros(())))
        return gymnasium.spaces.Box(-float(farthest), float(self.length), (1,))

    @property
    def action_space(self) -> gymnasium.Space[Any]:  # type: ignore[override]
        """The range of the putter; it clips actions outside."""
        return gymnasium.spaces.Box(float(self.weakest), float(self.strongest), (1,))

    def deceleration(self, state: Float[Array, "..."]) -> Float[Array, "..."]:
        """Deceleration of a ball that starts at `state`."""
        friction = jnp.where(state < self.rough, self.near_friction, self.far_friction)
        return 5 / 7 * friction * self.gravity

    def stroke(self, action: Float[Array, "..."]) -> Float[Array, "..."]:
        """Velocity of the ball after the stroke, without noise."""
        return jnp.clip(action, self.weakest, self.strongest) * self.putter**2

    @property
    def noise_size(self) -> int:
        """One number per stroke."""
        return 1

    def step(
        self, observation: Float[Array, "1"], action: Float[Array, "1"], noise: Float[Array, "1"]
    ) -> Float[Array, "1"]:
        """Where the ball comes to rest, or would if there were no hole."""
        velocity = self.stroke(action) * (1 + jnp.clip(self.noise * noise, -1.0, 1.0))
        return observation - velocity**2 / (2 * self.deceleration(observation))

    def log_prob(
        self,
        observation: Float[Array, "1"],
        action: Float[Array, "1"],
        next_observation: Float[Array, "1"],
    ) -> Float[Array, ""]:
        """Log-density, with the point masses of the clipped noise at both ends."""
        run = observation - next_observation
        strength, brake = self.stroke(action), 2 * self.deceleration(observation)
        # The resting place was rounded, so the far end gets a small tolerance.
        room = 1 - 16 * jnp.finfo(run.dtype).eps * (1 + jnp.abs(observation) / run)
        far = run >= (2 * strength) ** 2 / brake * room
        inside = (run > 0) & ~far
        velocity = jnp.sqrt(jnp.where(inside, run, 1.0) * brake)
        slope = brake / (2 * velocity * strength)
        density = norm.logpdf(velocity / strength, 1.0, self.noise) + jnp.log(slope)
        mass = jnp.where((run == 0) | far, norm.logcdf(-1 / self.noise), -jnp.inf)
        return jnp.where(inside, density, mass)[0]

    def initial(self, rng: PRNGKeyArray, params: None = None) -> Float[Array, "1"]:
        """Start anywhere on the green."""
        del params
        return jax.random.uniform(rng, (1,), dtype=float, maxval=self.length)

    def transition(
        self,
        state: Float[Array, "1"],
        action: Float[Array, "1"],
        rng: PRNGKeyArray,
        params: None = None,
    ) -> Float[Array, "1"]:
        """Play one stroke."""
        del params
        return self.step(state, action, jax.random.normal(rng, (1,), dtype=float))

    def observation(
        self, state: Float[Array, "1"], rng: PRNGKeyArray, params: None = None
    ) -> Float[Array, "1"]:
        """The state itself."""
        del rng, params
        return state

    def edge(self, state: Float[Array, "..."]) -> Float[Array, "..."]:
        """How far past the hole a ball may come to rest and still have fallen in."""
        fastest = (2 * self.hole - self.ball) ** 2 * self.gravity / (2 * self.ball)
        return -fastest / (2 * self.deceleration(state))

    def reward(
        self,
        state: Float[Array, "1"],
        action: Float[Array, "1"],
        next_state: Float[Array, "1"],
        rng: PRNGKeyArray | None = None,
        params: None = None,
    ) -> Float[Array, ""]:
        """-1 short of the hole, 0 in it, -100 past it."""
        del action, rng, params
        over = jnp.where(next_state < self.edge(state), -100.0, 0.0)
        return jnp.where(next_state > 0, -1.0, over)[0]

    def terminal(
        self, state: Float[Array, "1"], rng: PRNGKeyArray | None = None, params: None = None
    ) -> Bool[Array, ""]:
        """The ball is in the hole or past it."""
        del rng, params
        return state[0] <= 0

    def ends(
        self,
        observation: Float[Array, "1"],
        action: Float[Array, "1"],
        next_observation: Float[Array, "1"],
    ) -> Bool[Array, ""]:
        """Termination in the form that a task needs."""
        del observation, action
        return next_observation[0] <= 0

    def task(self) -> Task:
        """The known part of the game: reward, termination, discount."""
        return Task(reward=self.reward, discount=self.discount, terminal=self.ends)

    def policy(self, *, std: float = 1.0, normalised: bool = False) -> LinearGaussianPolicy:
        """The paper's policy: six radial basis functions, all weights one.

        Args:
          std: standard deviation; the paper starts at one and logs with an "explorative" policy.
          normalised: whether the features sum to one.
        """
        centres = jnp.linspace(0.0, self.length, N_FEATURES)[:, None]
        features = RadialBasis(centres, self.length / (N_FEATURES - 1), normalised)
        weights = jnp.ones((N_FEATURES, 1), dtype=float)
        return LinearGaussianPolicy(
            weights, features, log_std=jnp.log(jnp.full(1, std, dtype=float))
        )

    def model_features(
        self, observation: Float[Array, "1"], action: Float[Array, "1"]
    ) -> Float[Array, "2"]:
        """Distance and clipped action, without a bias."""
        # In a model these bounds are constants, not parameters.
        clipped = jnp.clip(action, *jax.lax.stop_gradient((self.weakest, self.strongest)))
        return jnp.concatenate([observation, clipped])

    def linear_model(self) -> LinearGaussianModel:
        """The paper's model class: ŝ' = s - max(0, ε), mean and deviation of ε linear in (s, a)."""
        zeros = jnp.zeros((2, 1), dtype=float)
        return LinearGaussianModel(zeros, zeros, self.model_features, rectified=True)

    def solution(
        self, *, cells: int = 400, actions: int = 400
    ) -> tuple[Float[Array, "cells"], Float[Array, "cells"]]:
        """Best value and best action at the middle of each cell, by dynamic programming.

        Distances and actions are divided into cells. The probability of every outcome is exact;
        values are assumed constant within a cell.
        """
        edges = jnp.linspace(0.0, self.length, cells + 1)
        states = (edges[1:] + edges[:-1]) / 2
        strengths = self.stroke(jnp.linspace(self.weakest, self.strongest, actions))
        brake = 2 * self.deceleration(states)

        def short_of(state: Array, brake: Array, strength: Array, reach: Array) -> Array:
            """Probability that the ball rests closer to the hole than `reach`."""
            needed = jnp.sqrt(jnp.maximum(state - reach, 0.0) * brake) / strength
            beyond = norm.cdf((1 - needed) / self.noise)
            return jnp.where(needed <= 0, 1.0, jnp.where(needed > 2, 0.0, beyond))

        over_actions = jax.vmap(short_of, in_axes=(None, None, 0, None))
        closer = jax.vmap(over_actions, in_axes=(0, 0, None, None))(states, brake, strengths, edges)
        lost = jax.vmap(over_actions, in_axes=(0, 0, None, 0))(
            states, brake, strengths, self.edge(states)
        )
        arrived = closer[..., 0]
        mdp = tabular.MDP(
            transitions=jnp.diff(closer, axis=-1),
            rewards=-(1 - arrived) - 100 * lost,
            initial=jnp.full(cells, 1 / cells, dtype=float),
            discount=jnp.asarray(self.discount),
        )
        v = tabular.optimal_values(mdp, sweeps=HORIZON)
        best = jnp.argmax(mdp.rewards + mdp.discount * mdp.transitions @ v, axis=1)
        return v, jnp.linspace(self.weakest, self.strongest, actions)[best]

    def optimal_return(self, *, cells: int = 400, actions: int = 400) -> Float[Array, ""]:
        """The best mean discounted return of an episode."""
        return jnp.mean(self.solution(cells=cells, actions=actions)[0])


def make(render_mode: str | None = None, **constants: Any) -> gymnasium.Env[Any, Any]:
    """Entry point for `gymnasium.make("gamps/Minigolf-v0", noise=0.1)`."""
    return TimeLimit(NumpyEnv(Minigolf(**constants), render_mode=render_mode), HORIZON)


def task() -> Task:
    """The known part of the game, for `gamps train --task gamps.envs.minigolf:task`."""
    return Minigolf().task()
