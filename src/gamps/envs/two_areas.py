"""The two-areas gridworld of the paper (section "Two-areas Gridworld" and its appendix).

A 5×5 grid in two areas. In the lower one, S1, the four actions try to go right, down, left and up,
and stay with probability 0.1. In the upper one, S2, they always go up, right, down and left, and
pass through walls to the other side. There is no way back from S2 to S1. The goal is in S2; every
step costs one. Where text and appendix of the paper disagree, this file follows the appendix; what
both leave open is data, in `Layout`.

An observation is the pair (cell, effect that led there); cells are numbered row by row.
"""

import dataclasses
import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from gymnasium.wrappers import TimeLimit
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from gamps.envs.adapter import NumpyEnv
from gamps.errors import SettingError
from gamps.exact import tabular
from gamps.models import ActionEffect
from gamps.policies import Boltzmann, OneHot
from gamps.tasks import Task

UP, RIGHT, DOWN, LEFT, STAY = range(5)
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1), (0, 0)])
LOWER_EFFECTS = (RIGHT, DOWN, LEFT, UP)
UPPER_EFFECTS = (UP, RIGHT, DOWN, LEFT)
SUCCESS = 0.9
N_ACTIONS = 4


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the paper leaves open.

    Attributes:
      cells: rows of the grid: G is the goal, u the rest of S2, l S1; a capital U or L is a start.
      torus: what S2 wraps around: its "area" alone, or the whole "grid" (then a move that would
        enter S1 stays).
      openings: columns in which S1's upper border can be passed; None means all.
      horizon: number of steps after which episodes are cut off.
      discount: γ.
    """

    cells: tuple[str, ...]
    torus: str
    openings: tuple[int, ...] | None
    horizon: int
    discount: float

    @property
    def kinds(self) -> np.ndarray:
        """The letters of `cells` as a flat array `[S]`."""
        return np.array(list("".join(self.cells)))

    @property
    def lower(self) -> np.ndarray:
        """`[S]`, True in S1."""
        return np.isin(self.kinds, ["l", "L"])

    @property
    def starts(self) -> np.ndarray:
        """The cells in which an episode may start."""
        return np.flatnonzero(np.isin(self.kinds, ["U", "L"]))

    @property
    def goal(self) -> int:
        """The goal's cell."""
        return int(np.flatnonzero(self.kinds == "G")[0])

    @property
    def successors(self) -> np.ndarray:
        """`[S, 5]`, the cell that each effect leads to."""
        size, lower = len(self.cells), self.lower.reshape(len(self.cells), -1)
        rows, columns = np.where(~lower)
        corner = np.array([rows.min(), columns.min()])
        extent = np.array([rows.max(), columns.max()]) + 1 - corner
        table = np.empty((size * size, 5), dtype=np.int32)
        for cell in range(size * size):
            here = np.array(divmod(cell, size))
            for effect, move in enumerate(MOVES):
                there = here + move
                if lower[tuple(here)]:
                    blocked = bool(((there < 0) | (there >= size)).any())
                    if not blocked and not lower[tuple(there)] and self.openings is not None:
                        blocked = there[1] not in self.openings
                elif self.torus == "area":
                    there, blocked = corner + (there - corner) % extent, False
                else:
                    there = there % size
                    blocked = bool(lower[tuple(there)])
                target = here if blocked else there
                table[cell, effect] = target[0] * size + target[1]
        table[self.goal] = self.goal
        return table


LAYOUTS = {
    "B": Layout(("GullL", "uullL", "llllL", "llllL", "LLLLL"), "area", None, 50, 0.99),
    "A": Layout(("Guuuu", "uuuuu", "llllL", "llllL", "LLLLL"), "grid", (0,), 10, 0.99),
    "plain": Layout(("GuuuU", "uuuuU", "llllL", "llllL", "LLLLL"), "area", None, 50, 0.98),
}
"""The layouts by name; see `Layout` for what the letters mean."""


class TwoAreas(FuncEnv[Any, Any, Any, Any, Any, Any, Any]):
    """The gridworld as a functional environment, with its task, true MDP, policy and model class.

    Examples:
      >>> two_areas("B").layout.cells
      ('GullL', 'uullL', 'llllL', 'llllL', 'LLLLL')
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        self.observation_space = gymnasium.spaces.MultiDiscrete([len(layout.kinds), 5])
        self.action_space = gymnasium.spaces.Discrete(N_ACTIONS)
        self.successors = layout.successors
        self.effects = self._effects()

    def _effects(self) -> np.ndarray:
        """`[S, A, 5]`, the true probability of each effect."""
        table = np.zeros((len(self.layout.kinds), N_ACTIONS, 5))
        for cell, low in enumerate(self.layout.lower):
            for action in range(N_ACTIONS):
                effect = (LOWER_EFFECTS if low else UPPER_EFFECTS)[action]
                table[cell, action, effect] = SUCCESS if low else 1.0
                table[cell, action, STAY] = 1 - SUCCESS if low else 0.0
        return table

    def initial(self, rng: PRNGKeyArray, params: None = None) -> Int[Array, "2"]:
        """Draw a start cell uniformly."""
        del params
        starts = jnp.asarray(self.layout.starts)
        cell = jax.random.choice(rng, starts)
        return jnp.stack([cell, jnp.asarray(STAY, cell.dtype)])

    def transition(
        self, state: Int[Array, "2"], action: Int[Array, ""], rng: PRNGKeyArray, params: None = None
    ) -> Int[Array, "2"]:
        """Draw the effect and move."""
        del params
        log_effects = jnp.log(jnp.asarray(self.effects))
        effect = jax.random.categorical(rng, log_effects[state[0], action]).astype(state.dtype)
        cell = jnp.asarray(self.successors)[state[0], effect].astype(state.dtype)
        return jnp.stack([cell, effect])

    def observation(
        self, state: Int[Array, "2"], rng: PRNGKeyArray, params: None = None
    ) -> Int[Array, "2"]:
        """The state itself."""
        del rng, params
        return state

    def reward(
        self,
        state: Int[Array, "2"],
        action: Int[Array, ""],
        next_state: Int[Array, "2"],
        rng: PRNGKeyArray | None = None,
        params: None = None,
    ) -> Float[Array, ""]:
        """-1, or 0 at the goal."""
        del action, next_state, rng, params
        return jnp.where(state[0] == self.layout.goal, 0.0, -1.0)

    def terminal(
        self, state: Int[Array, "2"], rng: PRNGKeyArray, params: None = None
    ) -> Bool[Array, ""]:
        """Whether the goal is reached."""
        del rng, params
        return state[0] == self.layout.goal

    def ends(
        self,
        observation: Int[Array, "2"],
        action: Int[Array, ""],
        next_observation: Int[Array, "2"],
    ) -> Bool[Array, ""]:
        """Termination in the form that a task needs: whether the goal is reached."""
        del observation, action
        return next_observation[0] == self.layout.goal

    def task(self) -> Task:
        """The known part: reward, termination, discount."""
        return Task(reward=self.reward, discount=self.layout.discount, terminal=self.ends)

    def mdp(self) -> tabular.MDP:
        """The true MDP over cells, with an absorbing goal."""
        kinds = self.layout.kinds
        reached = np.eye(len(kinds))[self.successors]
        initial = np.zeros(len(kinds))
        initial[self.layout.starts] = 1 / len(self.layout.starts)
        rewards = np.broadcast_to(
            np.where(kinds == "G", 0.0, -1.0)[:, None], (len(kinds), N_ACTIONS)
        )
        return tabular.MDP(
            transitions=jnp.asarray(np.einsum("sae,set->sat", self.effects, reached), dtype=float),
            rewards=jnp.asarray(rewards, dtype=float),
            initial=jnp.asarray(initial, dtype=float),
            discount=jnp.asarray(self.layout.discount, dtype=float),
        )

    @property
    def forced(self) -> np.ndarray:
        """`[S]`, the action that the paper's policies must take, or -1 where they are free."""
        blocked = self.successors[:, UP] == np.arange(len(self.successors))
        action = np.where(blocked, LOWER_EFFECTS.index(LEFT), LOWER_EFFECTS.index(UP))
        forced = np.where(self.layout.lower, action, -1)
        forced[self.layout.goal] = 0
        return forced

    def behaviour(self, key: Key[Array, ""]) -> Boltzmann:
        """The logging and initial policy: deterministic in S1, random in S2.

        In S1 it goes up where it can, and left where a wall is above; those rows and the goal's are
        forced. In S2 its logits are uniform in [-0.2, 0.2].
        """
        forced = self.forced
        shape = (len(forced), N_ACTIONS)
        logits = jax.random.uniform(key, shape, dtype=float, minval=-0.2, maxval=0.2)
        features = OneHot(len(forced), index=0)
        return Boltzmann(jnp.where(forced[:, None] < 0, logits, 0.0), features, jnp.asarray(forced))

    def effect_model(self) -> ActionEffect:
        """The paper's model class, with W = 0."""
        return ActionEffect(jnp.zeros((N_ACTIONS, 5), dtype=float), jnp.asarray(self.successors))


@functools.cache
def two_areas(layout: str = "B") -> TwoAreas:
    """The environment of a named layout; returns the same object each time."""
    if layout not in LAYOUTS:
        raise SettingError("layout", repr(layout), f"Choose one of {', '.join(LAYOUTS)}")
    return TwoAreas(LAYOUTS[layout])


def make(layout: str = "B", render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """Entry point for `gymnasium.make("gamps/TwoAreas-v0", layout="A")`."""
    env = two_areas(layout)
    return TimeLimit(NumpyEnv(env, render_mode=render_mode), env.layout.horizon)
