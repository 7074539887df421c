"""False densities and drift are found, and true logs are let alone at the stated rate."""

import numpy as np
import pytest

from gamps.datasets import Labels
from gamps.runs.log_truth import drifts, false_densities
from gamps.trajectories import Episode, from_episodes

STD = 0.5


def numbers(rng, n=80, steps=12, *, said=STD, shift=0.0):
    """Actions around .6 s; densities by a deviation that may not be theirs."""
    episodes = []
    for _ in range(n):
        s = shift + rng.normal(size=(steps + 1, 2))
        z = rng.normal(size=(steps, 1))
        a = 0.6 * s[:-1, :1] + STD * z
        log_p = -0.5 * (z * STD / said) ** 2 - np.log(said * np.sqrt(2 * np.pi))
        episodes.append(Episode(s, a, a[:, 0], log_p[:, 0]))
    return episodes


def choices(rng, n=80, steps=8, *, said=None):
    p = np.array([0.6, 0.3, 0.1])
    said = p if said is None else np.asarray(said)
    episodes = []
    for _ in range(n):
        a = rng.choice(3, size=steps, p=p)
        episodes.append(Episode(rng.normal(size=(steps + 1, 2)), a, 1.0 * a, np.log(said[a])))
    return episodes


def refuted(episodes, labels=Labels()):  # noqa: B008
    return list(false_densities(from_episodes(episodes), labels, None))


@pytest.mark.parametrize("make", [numbers, choices])
def test_true_densities_are_refuted_at_the_stated_rate(make):
    """One of a thousand logs at most; of 300 more than three has a chance below one in 10,000."""
    rng = np.random.default_rng(0)
    assert sum(bool(refuted(make(rng, n=40, steps=6))) for _ in range(300)) <= 3


def test_a_wrong_deviation_is_found():
    rng = np.random.default_rng(1)
    ((_, much), *_) = refuted(numbers(rng, said=0.4))
    assert much
    assert refuted(numbers(rng, said=0.65))


def test_a_controller_that_changed_unsaid_is_found_in_its_quarter():
    rng = np.random.default_rng(2)
    changed = [*numbers(rng, 150), *numbers(rng, 50, said=0.3)]
    names = [found for found, _ in refuted(changed)]
    assert any("quarter 4" in name for name in names)
    assert not any("quarter 1" in name for name in names)


def test_the_controller_is_named():
    rng = np.random.default_rng(3)
    labels = Labels(controllers=("old",) * 60 + ("new",) * 60, newest="new")
    names = [
        found for found, _ in refuted([*numbers(rng, 60), *numbers(rng, 60, said=0.3)], labels)
    ]
    assert names
    assert all(name.startswith("controller new") for name in names)


def test_false_propensities_of_choices_are_found():
    rng = np.random.default_rng(4)
    ((found, much), *_) = refuted(choices(rng, said=[1 / 3, 1 / 3, 1 / 3]))
    assert "choice 0 was taken 1.8" in found
    assert much


def test_drift_is_named_and_its_absence_is_not():
    rng = np.random.default_rng(5)
    (found,) = (x for x in drifts(from_episodes([*numbers(rng), *numbers(rng, shift=2)]), Labels())
                if "return" in x)  # fmt: skip
    assert "later half" in found
    quiet = sum(
        bool(list(drifts(from_episodes(numbers(rng, 40, 6)), Labels()))) for _ in range(300)
    )
    assert quiet <= 4
