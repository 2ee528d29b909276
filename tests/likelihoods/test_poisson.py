"""Poisson regression: reading, the Taylor bound where derivatives have no limit, exactness."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import ImplicitResampling, JaakkolaJordan, Taylor, UnsupportedModelError
from pymc_flymc.kernels.layout import Powers
from pymc_flymc.likelihoods import PoissonLog
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import exposed_rows
from tests.support.readings import value_of
from tests.support.steps import drive, step_of


def simulated(n, d, seed=0, scale=0.4):
    rng, X, exposure = exposed_rows(n, d, seed)
    return X, exposure, rng.poisson(exposure * np.exp(X @ (scale * rng.normal(size=d))))


def model_of(X, y, exposure=None, prior_sd=1.0):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, prior_sd, shape=X.shape[1])
        mu = pm.math.exp(X @ beta)
        pm.Poisson("y", mu=mu if exposure is None else exposure * mu, observed=y)
    return model


X, E, Y = simulated(60, 3)
SPELLINGS = {
    "plain": (lambda b: pm.math.exp(X @ b), None),
    "exposure": (lambda b: E * pm.math.exp(X @ b), E),
    "two factors": (lambda b: pm.math.exp(X @ b) * E * 2.0, 2.0 * E),
    "offset": (lambda b: pm.math.exp(pm.math.dot(X, b) + np.log(E)), E),
    "inverse": (lambda b: 1.0 / pm.math.exp(-(X @ b)), None),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    spelled, exposure = SPELLINGS[name]
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Poisson("y", mu=spelled(b), observed=Y)
    reading = read_model(model)
    assert isinstance(reading.regressions[0].likelihood, PoissonLog)
    beta = np.array([0.1, -0.3, 0.7])
    expected = X @ beta + (0.0 if exposure is None else np.log(exposure))
    np.testing.assert_allclose(reading.regressions[0].design.predictor(beta)[:, 0], expected)


def test_free_factors_of_a_mean():
    """A number that is sampled is part of the intercept; alone it may be anything."""
    for rows in (True, False):
        with pm.Model() as model:
            b, s = pm.Normal("b", 0.0, 1.0, shape=3), pm.HalfNormal("s")
            pm.Poisson("y", mu=s * pm.math.exp(X @ b) / 2.0 if rows else 2.0 * s, observed=Y)
        reading = read_model(model)
        point = {"b": np.array([0.1, -0.3, 0.7]), "s_log__": np.array(0.4)}
        w = value_of(reading.coefficients[0], point)
        expected = X @ point["b"] + 0.4 - np.log(2.0) if rows else np.full(60, 0.4 + np.log(2.0))
        found = reading.regressions[0].design.predictor(w)[:, 0]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_bad_models():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Poisson("y", mu=pm.math.sqr(X @ b), observed=Y)
    with pytest.raises(UnsupportedModelError, match="its mu is not the exponential function"):
        step_of(model)
    with pytest.raises(ValueError, match="y has 1 values that are not counts, first in row 3: -1"):
        step_of(model_of(X, np.where(np.arange(60) == 3, -1, Y)))
    with pytest.raises(ValueError, match="is not one on poisson-log likelihoods"):
        step_of(model_of(X, Y), bound=JaakkolaJordan())
    with pytest.raises(ValueError, match="brightness= is for conditional moves"):
        step_of(model_of(X, Y), brightness=ImplicitResampling())


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.slow_cases("3")
def test_bound(order):
    """Never above the likelihood, tight at the anchor, and collapsing, near and far."""
    model = model_of(X, Y, E)
    step = step_of(model, bound=Taylor(order))
    target, rng = step.target, np.random.default_rng(2)
    log_prior, rows = model.compile_logp(vars=model.free_RVs), target.data.rows
    seen = set()
    for scale in (0.0, 0.1, 1.0, 1.0, 3.0, 10.0, 30.0):
        theta = target.geometry.centre + scale * target.geometry.factor @ rng.standard_normal(3)
        w = np.empty(5)
        value = target.density(theta, target.statistics, w)
        powers = Powers(*w[3:])
        seen.add(powers.beyond > 0.0)
        eta, (near, beyond, y, anchor) = X @ theta + np.log(E), rows.constants.T
        u, mean = eta - anchor, np.exp(anchor)
        expansion = y * anchor - mean + (y - mean) * u - mean * u**2 / 2
        if order == 3:
            expansion -= mean * u**3 / 6
        remainder = near * powers.near + beyond * powers.beyond
        gap = y * eta - np.exp(eta) - expansion + remainder
        terms = 1 + np.abs(y * eta) + np.exp(eta) + mean * (1 + np.abs(u) ** order) + remainder
        assert np.all(gap >= -16 * np.finfo(float).eps * terms)
        assert np.all(gap <= 2 * remainder + 16 * np.finfo(float).eps * terms)
        factors = np.empty(len(y))
        target.parts[0].log_factor(eta[:, None], rows.constants, w[3:], factors)
        clear = gap > 1e-9
        np.testing.assert_allclose(
            np.logaddexp(0.0, factors + remainder)[clear], gap[clear], atol=1e-12 * terms.max()
        )
        prior = log_prior(step._layout.unravel(theta))
        total = prior + np.sum(expansion)
        assert value == pytest.approx(total, rel=1e-10, abs=1e-10 * terms.sum())
    assert seen == {False, True}


def poisson_posterior(X, y, exposure, prior_sd):
    def log_density(points):
        eta = points @ X.T + np.log(exposure)
        log_likelihood = np.sum(y * eta - np.exp(eta), axis=1)
        return log_likelihood + stats.norm.logpdf(points, 0.0, prior_sd).sum(axis=1)

    return log_density


@pytest.mark.parametrize(
    ("n", "settings"),
    [
        (30, {}),
        pytest.param(30, {"bound": Taylor(3)}, marks=pytest.mark.slow),
        pytest.param(30, {"bound": None}, marks=pytest.mark.slow),
        pytest.param(1000, {}, marks=pytest.mark.slow),
    ],
)
def test_posterior_by_quadrature(n, settings):
    x, exposure, y = simulated(n, 2, seed=3)
    model = model_of(x, y, exposure)
    step = step_of(model, transitions=30, **settings)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(poisson_posterior(x, y, exposure, 1.0), [-6, -6], [6, 6]))
    if step.target.subsamples and n == 1000:
        assert drawn["likelihood_queries"].mean() < n  # thirty transitions


def test_a_flat_prior_is_proper_with_counts():
    """The log-likelihood, without its constants, is positive here: that says nothing."""
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=3)
        pm.Poisson("y", mu=pm.math.exp(X @ beta + 3.0), observed=20 * Y)
    assert isinstance(step_of(model).bounds[0], Taylor)
