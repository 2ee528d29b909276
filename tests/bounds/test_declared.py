"""Families and bounds of somebody's own, wrong in one thing."""

from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.tensor.random.basic import VonMisesRV

from pymc_flymc import JaakkolaJordan, Taylor, UnsupportedModelError
from pymc_flymc.bounds import BOUNDS, Problem
from pymc_flymc.bounds import validity as module
from pymc_flymc.bounds.validity import check_declared
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
def problem():
    """Make a problem of a likelihood, its anchor made by the check of a bound."""

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
        check_declared(problem(Directions(), ANGLES), Taylor())
    check_declared(problem(Honest(), ANGLES), Taylor())


def test_derivatives_beyond_their_limits(problem):
    with pytest.raises(UnsupportedModelError, match="Correct derivative_bound"):
        check_declared(problem(TooSmooth(), ANGLES), Taylor())


def test_a_bound_of_ones_own(problem):
    with pytest.raises(UnsupportedModelError, match="Correct the bound"):
        check_declared(problem(BernoulliLogit(), BINARY), Weak(slack=0.0))


def test_what_is_of_this_package_is_not_checked(problem, monkeypatch):
    calls = []
    monkeypatch.setattr(module, "check_bound", lambda *args, **kwargs: calls.append(args))
    check_declared(problem(Honest(), ANGLES), Taylor())
    check_declared(problem(BernoulliLogit(), BINARY), Taylor())
    assert len(calls) == 1


class Concentrated(Honest):
    """A family whose derivatives are within their limits for a small concentration alone."""

    def __init__(self, kappa):
        self.kappa = kappa

    def log_likelihood(self, arguments, y):
        return self.kappa * pt.cos(y - arguments[0])

    def derivative_bound(self, order, low, high, y):
        return np.full(np.shape(y), 2.0)


@dataclass(init=False)
class ConcentratedByValue(Concentrated):
    """The same as a dataclass, which Python cannot hash."""


@pytest.mark.parametrize("kind", [Concentrated, ConcentratedByValue])
def test_families_of_one_class_are_checked_one_by_one(kind, problem):
    check_declared(problem(kind(1.0), ANGLES), Taylor())
    with pytest.raises(UnsupportedModelError, match="Correct derivative_bound"):
        check_declared(problem(kind(50.0), ANGLES), Taylor())


def test_a_family_is_checked_again_when_its_attributes_have_changed(problem):
    family = Concentrated(1.0)
    check_declared(problem(family, ANGLES), Taylor())
    family.kappa = 50.0
    with pytest.raises(UnsupportedModelError, match="Correct derivative_bound"):
        check_declared(problem(family, ANGLES), Taylor())


def test_bounds_of_one_class_are_checked_one_by_one(problem):
    class Lowered(JaakkolaJordan):
        def __init__(self, by):
            super().__init__(slack=0.0)
            self.by = by

        def gap(self, *args):
            return super().gap(*args) + self.by

    check_declared(problem(BernoulliLogit(), BINARY), Lowered(0.0))
    with pytest.raises(UnsupportedModelError, match="Correct the bound"):
        check_declared(problem(BernoulliLogit(), BINARY), Lowered(-0.01))


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
        check_declared(problem(Leaking(), BINARY), Taylor())
