"""Settings of the paper: isotropic proposals, and the untuned bound on a Student t."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import (
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    JaakkolaJordan,
    Tangent,
    Taylor,
)
from tests.support.comparison import assert_matches, quadrature
from tests.support.models import logistic_model, logistic_posterior, student_t
from tests.support.native import jacobian_of
from tests.support.steps import SCHEMES, drive, step_of

RNG = np.random.default_rng(5)
#: Columns of different lengths, correlated.
X = RNG.normal(size=(60, 2)) @ np.array([[1.5, 0.9], [0.0, 0.4]])
Y = (RNG.random(60) < 1.0 / (1.0 + np.exp(-X @ [0.8, -1.0]))).astype(int)
ISOTROPIC = {
    "walk": (FireflyMH, {"proposal": "isotropic", "transitions": 60}),
    "mala": (FireflyMALA, {"metric": "isotropic", "transitions": 40}),
    "slice": (FireflySlice, {"direction": "isotropic", "transitions": 20}),
}


@pytest.fixture(scope="module")
def logistic():
    reference = quadrature(logistic_posterior(X, Y, 2.0), [-12.0, -12.0], [12.0, 12.0])
    return logistic_model(X, Y, 2.0), reference


@pytest.mark.parametrize("kind", ISOTROPIC)
def test_isotropic_proposals_by_quadrature(logistic, kind):
    model, reference = logistic
    cls, settings = ISOTROPIC[kind]
    step = step_of(model, cls, bound=JaakkolaJordan(), **settings)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=2000, chains=2)
    assert_matches(draws, reference)
    jacobian = jacobian_of(step.chain.geometry)
    # Differences of coordinates: the last bit is that of the centre's.
    np.testing.assert_allclose(jacobian, jacobian[0, 0] * np.eye(2), rtol=4 * np.finfo(float).eps)


def test_joint_moves_are_not_isotropic(logistic):
    with pytest.raises(ValueError, match="proposal='isotropic' is for conditional moves"):
        step_of(logistic[0], bound=Taylor(), proposal="isotropic")


@pytest.mark.slow
def test_untuned_tangent_by_quadrature():
    """It touches at no residual: outliers are bright, and all else is mostly dark."""
    model, log_density = student_t()
    bound, brightness = Tangent(xi=0.0, slack=0.0), SCHEMES["implicit-single-q"]
    step = step_of(model, FireflySlice, bound=bound, brightness=brightness, transitions=40)
    omega = step.target.data.parts[0].constants[:, 2]
    np.testing.assert_allclose(omega, 5.0 / 8.0, rtol=1e-8)
    reference = quadrature(log_density, [-10.0, -6.0], [10.0, 4.0])
    draws, _ = drive(step, model.initial_point(), tune=300, draws=2000, chains=2)
    assert_matches(draws, reference)


def test_a_tangent_at_a_kink_is_refused():
    with pm.Model() as model:
        pm.Laplace("y", X @ pm.Normal("b", shape=2), 1.0, observed=Y.astype(float))
    with pytest.raises(ValueError, match="xi must be positive under asymmetric-laplace noise"):
        step_of(model, FireflySlice, bound=Tangent(xi=0.0))


@pytest.mark.parametrize("xi", ["1", -1.0, np.inf, np.ones(25)])
def test_where_a_tangent_touches_is_checked(xi):
    with pytest.raises(ValueError, match="Tangent: xi must be None or a finite number >= 0"):
        Tangent(xi=xi)
