"""Three plants that stand for what people have logs of; each can be asked again for the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

Act = Callable[[np.ndarray, np.random.Generator], np.ndarray]
"""Actions at observations, one a row, by a policy of any kind."""


class Plant(Protocol):
    """Episodes side by side; nothing of it is known to who reads the log."""

    names: tuple[str, ...]
    longest: int
    discount: float

    def begin(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """First observations."""
        ...

    def step(
        self, observations: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Next observations, rewards, and where episodes end."""
        ...


class Oven:
    """Keep a batch hot without burning it: power is continuous, and a burnt batch ends.

    Observed are the temperature, how fast it rises, and how long the batch has been in.
    """

    names = ("temperature", "rise", "minutes")
    longest = 40
    discount = 0.98

    def begin(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """At a temperature around 80 degrees."""
        return np.stack([rng.normal(80, 8, n), rng.normal(0, 0.5, n), np.zeros(n)], axis=1)

    def step(
        self, observations: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Power, in units of the element's, heats; the oven loses heat to the room."""
        temperature, rise, minutes = observations.T
        power = np.clip(actions[:, 0], 0, 10)
        rise = 0.6 * rise + 0.9 * power - 0.03 * (temperature - 20)
        rise = rise + rng.normal(0, 0.4, len(rise))
        temperature = temperature + rise
        burnt = temperature > 155
        rewards = -np.abs(temperature - 145) / 40 - 0.02 * power - 20.0 * burnt
        return np.stack([temperature, rise, minutes + 1], axis=1), rewards, burnt


class Ward:
    """Four treatments of patients with ten vital signs, in short stays that end in two ways."""

    names = ("age", "pressure", "pulse", "lactate", "fever", "oxygen", "kidney", "liver", "pain",
             "day")  # fmt: skip
    longest = 8
    discount = 0.95

    def begin(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Standardised, but for the day."""
        signs = rng.normal(size=(n, 10))
        signs[:, 3] += 0.8
        signs[:, 9] = 0
        return signs

    def step(
        self, observations: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Fluids help low pressure and harm the kidney; the right drug depends on the fever."""
        x = observations.copy()
        fluid, drug = (actions == 1) | (actions == 3), (actions == 2) | (actions == 3)
        low, hot = x[:, 1] < 0, x[:, 4] > 0
        better = 0.5 * (fluid & low) - 0.4 * (fluid & ~low) + 0.6 * (drug & hot)
        better = better - 0.4 * (drug & ~hot)
        x[:, 3] = 0.9 * x[:, 3] + 0.15 - better + rng.normal(0, 0.4, len(x))
        x[:, 1] += 0.5 * fluid + rng.normal(0, 0.3, len(x))
        x[:, 4] = 0.8 * x[:, 4] - 0.3 * drug + rng.normal(0, 0.5, len(x))
        x[:, 6] += 0.1 * (fluid & ~low) + rng.normal(0, 0.1, len(x))
        for sign in (2, 5, 7, 8):
            x[:, sign] = 0.9 * x[:, sign] + rng.normal(0, 0.4, len(x))
        x[:, 9] += 1
        home, worse = x[:, 3] < -1.0, x[:, 3] > 3.0
        rewards = -0.2 * x[:, 3] - 0.05 * fluid - 0.05 * drug + 3.0 * home - 5.0 * worse
        return x, rewards, home | worse


class Pump:
    """Two tanks in a row, whose second level is to stay at a mark; the pump's power is set."""

    names = ("upper", "lower")
    longest = 25
    discount = 0.97

    def begin(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Both are nearly empty."""
        return rng.uniform(0, 2, (n, 2))

    def step(
        self, observations: np.ndarray, actions: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Water runs from the upper to the lower and out."""
        upper, lower = observations.T
        power = np.clip(actions[:, 0], 0, 5)
        through, out = 0.35 * np.sqrt(upper), 0.3 * np.sqrt(lower)
        upper = np.clip(upper + 0.3 * power - through + rng.normal(0, 0.05, len(power)), 0, 10)
        lower = np.clip(lower + through - out + rng.normal(0, 0.05, len(power)), 0, 10)
        rewards = -((lower - 4.0) ** 2) / 4 - 0.01 * power
        return np.stack([upper, lower], axis=1), rewards, np.zeros(len(power), bool)


class Logged(NamedTuple):
    """Episodes as arrays, `[N, T]`; past an episode's end nothing is meant."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ended: np.ndarray
    lengths: np.ndarray


def run(plant: Plant, act: Act, n: int, seed: int) -> Logged:
    """So many episodes of a policy."""
    rng = np.random.default_rng(seed)
    observations = [plant.begin(n, rng)]
    actions, rewards = [], []
    alive, ended, lengths = np.ones(n, bool), np.zeros(n, bool), np.zeros(n, int)
    for _ in range(plant.longest):
        action = act(observations[-1], rng)
        following, reward, ends = plant.step(observations[-1], action, rng)
        observations.append(np.where(alive[:, None], following, observations[-1]))
        actions.append(action)
        rewards.append(np.where(alive, reward, 0.0))
        lengths += alive
        ended |= alive & ends
        alive &= ~ends
    steps: Any = (np.stack(x, axis=1) for x in (observations, actions, rewards))
    return Logged(*steps, ended, lengths)


def returns(plant: Plant, log: Logged) -> np.ndarray:
    """Discounted, of each episode."""
    return np.asarray(log.rewards @ plant.discount ** np.arange(plant.longest))
