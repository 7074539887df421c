"""pcgym's stirred tank reactor and four tanks as loops that a PID closes.

    python -m venv ENV; ENV/bin/pip install ".[minari]"
    ENV/bin/pip install --no-deps -r benchmarks/process/requirements.txt

Model, integrator, set points, ranges and reward (squared error) are pcgym's, as its examples have
them. Around it: start states that vary, an actuator that stops at its ends, measurement noise from
the environment's own seed (pcgym draws from numpy's global one), and what a PID keeps in mind,
observed too: the integral of each error and the last change of what is controlled. The PID is then
a policy that is linear in what is observed, and its dither has a known density.
"""

from functools import cache
from typing import Any, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from pcgym import make_env
from pcgym.oracle import oracle

from gamps.models.gaussian import concatenated
from gamps.policies import LinearGaussianPolicy
from gamps.tasks import Task

NOISE = 0.001  # of measurements, relative, as in pcgym's examples
VARIATION = 0.1  # of start states, relative
DISCOUNT = 0.99
LEAK = 0.02  # of the error, that a step adds to its integral


class Plant(NamedTuple):
    """What pcgym is asked for.

    Attributes:
      model: its name there.
      start: state.
      states: lowest and highest, by state.
      actions: lowest and highest, by action.
      targets: index of a controlled state, and its set points in the first and the second half.
      time: of an episode, in the model's unit.
      steps: of an episode.
    """

    model: str
    start: tuple[float, ...]
    states: tuple[tuple[float, ...], tuple[float, ...]]
    actions: tuple[tuple[float, ...], tuple[float, ...]]
    targets: dict[str, tuple[int, float, float]]
    time: float
    steps: int

    @property
    def controlled(self) -> np.ndarray:
        """Indices of the controlled states."""
        return np.array([index for index, _, _ in self.targets.values()])

    def params(self, start: np.ndarray) -> dict[str, Any]:
        """As pcgym wants them; errors count in halves of a state's range."""
        half = self.steps // 2
        points = {k: [a] * half + [b] * (half + 2) for k, (_, a, b) in self.targets.items()}
        low, high = map(np.array, self.states)
        index = self.controlled
        scale = (2 / (high - low))[index] ** 2
        return {
            "model": self.model, "N": self.steps + 1, "tsim": self.time * (1 + 1 / self.steps),
            "SP": points, "x0": np.concatenate([start, [p[0] for p in points.values()]]),
            "o_space": {"low": np.append(low, low[index]), "high": np.append(high, high[index])},
            "a_space": {"low": np.array(self.actions[0]), "high": np.array(self.actions[1])},
            "r_scale": dict(zip(points, scale, strict=True)),
            "normalise_a": True, "normalise_o": True, "integration_method": "casadi",
        }  # fmt: skip


REACTOR = Plant(
    "cstr", (0.8, 330.0), ((0.7, 300.0), (1.0, 350.0)), ((295.0,), (302.0,)),
    {"Ca": (0, 0.85, 0.9)}, 25.0, 100,
)  # fmt: skip
FOUR_TANKS = Plant(
    "four_tank", (0.141, 0.112, 0.072, 0.42), ((0.0,) * 4, (0.6,) * 4), ((0.1, 0.1), (10.0, 10.0)),
    {"h3": (2, 0.5, 0.1), "h4": (3, 0.2, 0.3)}, 1_000.0, 60,
)  # fmt: skip


class Loop(gymnasium.Env[np.ndarray, np.ndarray]):
    """Observed: states, set points, integrals of errors, last changes; all in [-1, 1] or near."""

    def __init__(self, plant: Plant) -> None:
        """Nothing is simulated yet."""
        self.plant = plant
        size = len(plant.start) + 3 * len(plant.targets)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (len(plant.actions[0]),), np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, Any]:
        """A start state around the usual one."""
        super().reset(seed=seed, options=options)
        varied = self.np_random.uniform(-VARIATION, VARIATION, len(self.plant.start))
        # A reactor's temperature may vary by a few degrees alone.
        varied[np.array(self.plant.start) > 100] /= 10
        self.start = np.array(self.plant.start) * (1 + varied)
        self.inner = make_env(self.plant.params(self.start))
        self.inner.reset()
        # Built once an episode, and not once a step; the arithmetic is the same.
        self.inner.int_eng.discretise_model = cache(self.inner.int_eng.discretise_model)
        self.integral = np.zeros(len(self.plant.targets))
        self.seen = self._measured()[self.plant.controlled]
        return self._observed(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of pcgym, the action held at the actuator's ends."""
        _, reward, _, _, _ = self.inner.step(np.clip(action, -1, 1))
        return self._observed(), float(np.sum(reward)), False, False, {}

    def _measured(self) -> np.ndarray:
        state = np.asarray(self.inner.state[: len(self.plant.start)], float)
        state = state * (1 + NOISE * self.np_random.standard_normal(len(state)))
        low, high = map(np.array, self.plant.states)
        return 2 * (state - low) / (high - low) - 1

    def _observed(self) -> np.ndarray:
        index = self.plant.controlled
        low, high = (np.array(bound)[index] for bound in self.plant.states)
        points = np.array([values[self.inner.t] for values in self.inner.SP.values()])
        points = 2 * (points - low) / (high - low) - 1
        state = self._measured()
        self.integral = self.integral + LEAK * (points - state[index])
        change, self.seen = state[index] - self.seen, state[index]
        return np.concatenate([state, points, self.integral, change])


def reactor() -> Loop:
    """Concentration in a stirred tank, by the temperature of its jacket."""
    return Loop(REACTOR)


def four_tanks() -> Loop:
    """Levels of the upper two of four tanks, by two pumps."""
    return Loop(FOUR_TANKS)


def task_of(plant: Plant) -> Task:
    """Squared errors at the next observation, which pcgym counts without measurement noise."""
    index, many = plant.controlled, len(plant.start)

    def reward(
        observation: Float[Array, "D"], action: Float[Array, "A"], following: Float[Array, "D"]
    ) -> Float[Array, ""]:
        del observation, action
        return -jnp.sum((following[index] - following[many : many + len(index)]) ** 2)

    return Task(reward, DISCOUNT)


def reactor_task() -> Task:
    """Of the reactor."""
    return task_of(REACTOR)


def four_tanks_task() -> Task:
    """Of the four tanks."""
    return task_of(FOUR_TANKS)


def clipped(observation: Float[Array, "D"], action: Float[Array, "A"]) -> Float[Array, "F"]:
    """Input of a model that knows the actuator's ends."""
    return concatenated(observation, jnp.clip(action, -1.0, 1.0))


def pid(
    plant: Plant,
    pairs: tuple[tuple[int, int, float, float, float, float], ...],
    dither: float,
) -> LinearGaussianPolicy:
    """Loops that each move one action by one error, with Gaussian dither.

    Args:
      plant: whose.
      pairs: action, number of the target, gains of error, integral and change, and where it rests.
      dither: standard deviation.
    """
    many, targets = len(plant.start), len(plant.targets)
    gains = np.zeros((many + 3 * targets + 1, len(plant.actions[0])))
    for action, target, of_error, of_integral, of_change, rest in pairs:
        gains[plant.controlled[target], action] -= of_error
        gains[many + target, action] += of_error
        gains[many + targets + target, action] += of_integral
        gains[many + 2 * targets + target, action] -= of_change
        gains[-1, action] = rest
    log_std = jnp.full(gains.shape[1], np.log(dither), dtype=float)
    return LinearGaussianPolicy(jnp.asarray(gains, dtype=float), log_std=log_std, learn_std=False)


def reactor_pid() -> LinearGaussianPolicy:
    """A hotter jacket lowers the concentration."""
    return pid(REACTOR, ((0, 0, -0.5, -2.0, 0.0, 0.0),), 0.2)


def four_tanks_pid() -> LinearGaussianPolicy:
    """The second pump feeds the third tank, and the first the fourth."""
    return pid(FOUR_TANKS, ((0, 1, 0.5, 2.0, 0.0, 0.0), (1, 0, 0.5, 2.0, 0.0, 0.0)), 0.2)


class _Oracle(oracle):
    """pcgym's, whose set points are asked for at times that NumPy 2 takes for no number."""

    def setup_mpc(self) -> tuple[Any, Any]:
        parts: tuple[Any, Any] = super().setup_mpc()
        for part in parts:
            part.p_fun = _at_a_number(part.p_fun)
        return parts


def _at_a_number(points: Any) -> Any:
    return lambda now: points(np.asarray(now).item())


def by_oracle(plant: Plant, start: np.ndarray) -> float:
    """Discounted return of pcgym's NMPC, which knows the model, from one start state.

    It asks for the set point of two steps ago, and at first for the last one. It is given them in
    time: that of the step that its action leads to.
    """
    params = plant.params(start)
    in_time = {name: [*at[2:], at[-1], at[1]] for name, at in params["SP"].items()}
    _, inputs = _Oracle(make_env, params | {"SP": in_time}, {"N": 15}).mpc()
    inner = make_env(plant.params(start))
    inner.reset()
    low, high = (np.array(bound) for bound in plant.actions)
    total = 0.0
    for t in range(plant.steps):
        action = 2 * (inputs[:, t] - low) / (high - low) - 1
        total += DISCOUNT**t * float(np.sum(inner.step(np.clip(action, -1, 1))[1]))
    return total
