"""Families and bounds of somebody's own, wrong in one thing."""

from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.tensor.random.basic import VonMisesRV

from pymc_flymc import JaakkolaJordan, Taylor, UnsupportedModelError
from pymc_flymc.bounds import BOUNDS, Problem
from pymc_flymc.bounds import first_use as module
from pymc_flymc.bounds.first_use import check_first_use
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.weighted import weighted_family
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.passes import likelihood_pass
from pymc_flymc.regression.regression import Regression


class Directions(SmoothFamily):
    """Angles around a predictor, with a known concentration of 2."""

    name = "von Mises"
    distributions = VonMisesRV

    def read(self, rv):
        return RowParameters(self, rv.owner.op.dist_params(rv.owner)[0])

    def log_likelihood(self, arguments, y):
        return 2.0 * pt.cos(y - arguments[0])


class Honest(Directions):
    """The same, that says what it is."""

    log_concave = False


class TooSmooth(Honest):
    """One whose derivatives are said to be a tenth of what they are."""

    def derivative_bound(self, order, low, high, y):
        return np.full(np.shape(y), 0.2)


class Leaking(BernoulliLogit):
    """A success by chance in one of a hundred."""

    def log_likelihood(self, arguments, y):
        p = 0.01 + 0.99 * pt.sigmoid(arguments[0])
        return y * pt.log(p) + (1 - y) * pt.log1p(-p)


class Weak(JaakkolaJordan):
    """One that is higher than it may be."""

    def gap(self, *args):
        return super().gap(*args) - 0.01


@pytest.fixture
def problem(monkeypatch):
    """Make a problem of a likelihood, its anchor made by the check of a bound."""
    monkeypatch.setattr(module, "_known", set())

    def make(likelihood, y):
        rng = np.random.default_rng(1)
        X = np.column_stack([np.ones(len(y)), rng.normal(size=len(y))])
        regression = Regression("y", Design(X, np.empty((0, 1)), False), y, likelihood)
        expansion = likelihood_pass(regression.design, y, regression.derivatives, np.zeros(2))
        own = type("Part", (), {"w": np.zeros(2), "expansion": expansion})
        return Problem("y", regression.design, y, likelihood, None, own)

    return make


ANGLES = np.random.default_rng(0).vonmises(0.0, 2.0, 60)
BINARY = np.random.default_rng(0).integers(0, 2, 60)


def test_not_log_concave(problem):
    with pytest.raises(UnsupportedModelError, match=r"attribute log_concave = False"):
        check_first_use(problem(Directions(), ANGLES), Taylor())
    check_first_use(problem(Honest(), ANGLES), Taylor())


def test_derivatives_beyond_their_limits(problem):
    with pytest.raises(UnsupportedModelError, match="Correct derivative_bound"):
        check_first_use(problem(TooSmooth(), ANGLES), Taylor())


def test_a_bound_of_ones_own(problem):
    with pytest.raises(UnsupportedModelError, match="Correct the bound"):
        check_first_use(problem(BernoulliLogit(), BINARY), Weak(slack=0.0))


def test_once(problem, monkeypatch):
    calls = []
    monkeypatch.setattr(module, "check_bound", lambda *args, **kwargs: calls.append(args))
    for _ in range(2):
        check_first_use(problem(Honest(), ANGLES), Taylor())
        check_first_use(problem(BernoulliLogit(), BINARY), Taylor())
    assert len(calls) == 1


@dataclass(frozen=True)
class Concentrated(Honest):
    """A family whose derivatives are within their limits for a small concentration alone."""

    kappa: float = 1.0

    def log_likelihood(self, arguments, y):
        return self.kappa * pt.cos(y - arguments[0])

    def derivative_bound(self, order, low, high, y):
        return np.full(np.shape(y), 2.0)


def test_families_count_with_their_numbers(problem):
    check_first_use(problem(Concentrated(1.0), ANGLES), Taylor())
    with pytest.raises(UnsupportedModelError, match="Correct derivative_bound"):
        check_first_use(problem(Concentrated(50.0), ANGLES), Taylor())


def test_a_sum_over_convex_rows_is_that_of_their_expansions():
    """Whatever a family says: the remainders of rows are those of these very expansions."""
    X = np.random.default_rng(2).normal(size=(60, 1))
    design, w = Design(X, np.empty((0, 1)), False), np.array([2.0])
    expansion = likelihood_pass(design, ANGLES, RowDerivatives(Directions()), w)
    curvatures = 2.0 * np.cos(ANGLES - X[:, 0] * w)
    assert curvatures.min() < 0.0
    np.testing.assert_allclose(expansion.information.array, X.T @ (X * curvatures[:, None]))


def test_a_subclass_with_another_likelihood_is_not_of_the_form():
    leaking = Leaking()
    assert not [
        bound.name for bound in BOUNDS if bound.supports(leaking) and bound.name != "Taylor"
    ]
    family, _ = weighted_family(leaking, BINARY, np.ones(60))
    assert family.base is leaking
    assert JaakkolaJordan().supports(type("Same", (BernoulliLogit,), {})())


def test_its_derivatives_are_checked(problem):
    """It is convex somewhere, which the class that it is made from is not."""
    with pytest.raises(UnsupportedModelError, match="log_concave = False"):
        check_first_use(problem(Leaking(), BINARY), Taylor())
