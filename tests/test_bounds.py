"""The finite-sample theorem's constants, by hand."""

import math

import pytest

from gamps.exact import bounds


def test_moment_constants():
    found = bounds.moment_constants(chi1=1.5, chi2=2.0, chi3=3.0, discount=0.5)
    assert found.c1**2 == pytest.approx(3 * 2 * 1.75 / (0.5 * 0.25**3))
    assert found.c2**2 == pytest.approx(2 / (0.5**3 * 0.25))
    assert bounds.moment_constants(chi1=2.0, chi2=1.0, chi3=1.0, discount=0.5).c1 == math.inf


def test_deviation():
    xi = math.sqrt((2 * math.log(2 * math.e * 100 / 2) + math.log(8 * 4 / 0.1)) / 100)
    expected = xi * (0.5 + math.sqrt(1 + 0.5 * math.log(1 / xi)))
    assert bounds.deviation(n=100, d=3, pseudo_dimension=2, delta=0.1) == pytest.approx(expected)


@pytest.mark.parametrize("q", [1.0, 2.0, math.inf])
def test_finite_sample_bound(q):
    constants = bounds.MomentConstants(c1=2.0, c2=3.0)
    settings = dict(
        n=100, d=3, q=q, pseudo_dimension=2, delta=0.1, constants=constants, z=0.7,
        reward_max=1.5, discount=0.9, approximation=0.04,
    )  # fmt: skip
    epsilon = bounds.deviation(n=100, d=3, pseudo_dimension=2, delta=0.1)
    root = {1.0: 3.0, 2.0: math.sqrt(3), math.inf: 1.0}[q]
    for printed, power in ((True, 1), (False, 2)):
        fitting = 0.9 * math.sqrt(2 * 0.7 * 2 * epsilon) / 0.1**power
        model = 0.9 * math.sqrt(2) * 0.7 * 1.5 / 0.1 ** (power + 1) * 0.2
        expected = 2 * 1.5 * (root * 3 * epsilon + fitting) + model
        found = bounds.finite_sample_bound(**settings, printed=printed)
        assert found == pytest.approx(expected)
