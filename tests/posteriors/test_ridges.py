"""Effects written in the non-centred way that the data know well: a ridge, narrower at one end."""

import numpy as np
import pymc as pm
import pytest
from scipy.interpolate import CubicSpline

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import log_sigmoid
from tests.support.steps import drive, step_of


def ridge():
    """Model of y whose slope, tau * z, is known to a twentieth; and its slope and rows."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=2_000)
    y = rng.random(2_000) < np.exp(log_sigmoid(x))
    with pm.Model() as model:
        tau = pm.HalfCauchy("tau", 1.0)
        z = pm.Normal("z", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=tau * z * x, observed=y.astype(int))
    return model, x, y


@pytest.fixture(scope="module")
def reference():
    """Of log tau and log z: the slope is twenty sds above zero, and z with it."""
    _, x, y = ridge()
    slopes = np.linspace(0.4, 1.8, 281)
    of_slope = log_sigmoid(np.outer(slopes, x) * np.where(y, 1.0, -1.0)).sum(axis=1)
    spline = CubicSpline(slopes, of_slope)

    def log_density(points):
        log_tau, log_z = points.T
        slope = np.clip(np.exp(log_tau + log_z), 0.4, 1.8)
        prior = log_tau - np.log1p(np.exp(2.0 * log_tau)) - 0.5 * np.exp(2.0 * log_z) + log_z
        return spline(slope) + prior

    return quadrature(log_density, [-2.5, -9.0], [9.0, 2.5], size=1501)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "settings", "n_draws"),
    [
        (FireflyHMC, {}, 4_000),
        (FireflyMH, {}, 4_000),
        (FireflyMH, {"kernel": "surrogate"}, 15_000),
        (FireflyMH, {"kernel": "joint"}, 15_000),
        (FireflyMH, {"kernel": "metropolis", "transitions": 10}, 15_000),
        (FireflyMALA, {"transitions": 10}, 15_000),
        (FireflySlice, {"transitions": 5}, 15_000),
        (FireflyHMC, {"bound": None}, 15_000),
    ],
)
def test_the_narrow_end_is_reached(reference, cls, settings, n_draws):
    """A scale that is multiplied has moves of its own, without which z is seldom small."""
    model, _, _ = ridge()
    step = step_of(model, cls, **settings)
    draws, stats = drive(step, model.initial_point(), tune=500, draws=n_draws, chains=2)
    assert stats["rescaling_acceptance_probability"].mean() > 0.3
    draws[..., 1] = np.log(draws[..., 1])
    assert_matches(draws, reference)
