"""Coefficients that do not move at the mode, but further out: bounds let chains move them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyHMC, Taylor
from pymc_flymc.anchor.coefficient_factor import FARTHEST, coefficient_factor
from pymc_flymc.bounds.taylor import metric_of
from pymc_flymc.kernels.geometry import dense_geometry
from tests.support.steps import drive, step_of

RNG = np.random.default_rng(1)
N, LEVELS = 300, 8
GROUP, X = RNG.integers(0, LEVELS, N), 0.01 * RNG.normal(size=N)
Y = RNG.poisson(np.exp(0.2 + 0.4 * RNG.normal(size=LEVELS)[GROUP]))


class Coefficients:
    """A parameter, a positive part that is zero, a product of zeros, a number, an exponential."""

    is_affine, n_coefficients = False, 5

    def coefficients(self, theta):
        a, b, c = theta
        return np.array([a, max(b, 0.0), a * c, 1.0, np.exp(2.0 * a)])

    def jacobian(self, theta):
        of_a = [1.0, 0.0, theta[2], 0.0, 2.0 * np.exp(2.0 * theta[0])]
        return np.column_stack([of_a, np.zeros(5), [0.0, 0.0, theta[0], 0.0, 0.0]])


def test_resting_coefficients_have_columns_of_their_own():
    geometry = dense_geometry(np.array([0.0, -0.3, 0.0]), np.eye(3))
    found = coefficient_factor(Coefficients(), geometry, np.zeros(5))
    expected = np.zeros((5, 5))
    expected[:, :3] = Coefficients().jacobian(geometry.centre)
    own = np.abs(found[[1, 2], [3, 4]])
    assert np.all((own > 0.5) & (own < 5.0))  # in posterior sds of parameters, which are one
    found[[1, 2], [3, 4]] = 0.0
    np.testing.assert_array_equal(found, expected)


def test_rows_limit_how_far_a_resting_coefficient_is_taken_to_move():
    """An exponential of a parameter with a flat prior moves out of all proportion."""

    class Exponential(Coefficients):
        n_coefficients = 1

        def coefficients(self, theta):
            return np.exp(theta[:1])

        def jacobian(self, theta):
            return np.exp(theta[:1])[:, None]

    geometry = dense_geometry(np.array([-14.0]), np.array([[1000.0]]))
    found = coefficient_factor(Exponential(), geometry, np.array([25.0]))
    assert abs(found[0, -1]) == pytest.approx(FARTHEST / 5.0)


@pytest.mark.slow
def test_a_correlation_without_spread(searches):
    """Slopes of groups do not differ: the joint density of their sd has no mode, its own has."""
    rng, n, groups = np.random.default_rng(3), 2000, 30
    group, x = rng.integers(0, groups, n), rng.normal(size=n)
    rng.normal(size=(groups, 2))
    y = rng.random(n) < 1 / (1 + np.exp(1.0 - 0.5 * x))
    with pm.Model() as model:
        sds = pm.Exponential.dist(1.0, shape=2)
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sds)
        effects = pm.Normal("mu", 0.0, 2.0, shape=2) + pm.Normal("z", shape=(groups, 2)) @ chol.T
        eta = effects[group, 0] + effects[group, 1] * x
        pm.Bernoulli("y", logit_p=eta, observed=y.astype(int))
    anchor = searches(model)
    metric, ridge = metric_of(anchor.parts[0])
    assert np.isfinite(metric).all() and np.isfinite(ridge).all()
    # The element off the diagonal, whose funnel has no joint mode, is integrated out.
    assert np.linalg.norm(anchor.geometry.factor, axis=1).max() < 5.0


@pytest.mark.slow_cases("one radius")
@pytest.mark.parametrize("effects", [False, True], ids=["one radius", "in parts"])
def test_a_positive_part_that_is_zero_at_the_mode(effects):
    """The slope has hardly any information, so that its prior holds: a is above zero in 38%."""
    with pm.Model() as model:
        a = pm.Normal("a", -0.3, 1.0)
        eta = pm.Normal("c") + pt.maximum(a, 0.0) * X
        if effects:
            eta += pm.Normal("z", 0.0, 0.5, shape=LEVELS)[GROUP]
        pm.Poisson("y", pm.math.exp(eta), observed=Y)
    step = step_of(model, FireflyHMC, bound=Taylor())
    draws, _ = drive(step, model.initial_point(), tune=200, draws=800)
    above = draws[..., 0] > 0.0
    assert 0.25 < above.mean() < 0.5  # by Monte Carlo error, from about 100 effective draws
