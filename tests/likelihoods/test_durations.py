"""Exponential, Weibull and gamma outcomes, censored and not: reading, bounds, exactness."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_flymc import FireflyHMC, FireflyMH, Taylor, UnsupportedModelError
from pymc_flymc.likelihoods import Durations
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.steps import drive

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
ETA = X @ [0.5, 0.4]
Y = np.exp(ETA) * RNG.weibull(1.5, size=N)
UPPER = np.quantile(Y, 0.7) * np.linspace(0.8, 1.2, N)
exp = pm.math.exp


LOWER = np.quantile(Y, 0.2) * np.linspace(1.2, 0.8, N)


def censored(kind, lower=None):
    return lambda e: pm.Censored(
        "y", kind(e), lower=lower, upper=UPPER, observed=np.clip(Y, lower, UPPER)
    )


#: What a user may write, with scipy's distribution of a value of given log scale.
WRITTEN = {
    "rate": (lambda e: pm.Exponential("y", lam=exp(-e), observed=Y), stats.expon()),
    "rate as a quotient": (lambda e: pm.Exponential("y", 1 / exp(e), observed=Y), stats.expon()),
    "scale": (lambda e: pm.Exponential("y", scale=exp(e), observed=Y), stats.expon()),
    "weibull": (lambda e: pm.Weibull("y", 1.5, exp(e), observed=Y), stats.weibull_min(1.5)),
    "gamma": (lambda e: pm.Gamma("y", 2.5, beta=exp(-e), observed=Y), stats.gamma(2.5)),
    "gamma mean": (
        lambda e: pm.Gamma("y", alpha=2.5, beta=2.5 / exp(e), observed=Y),
        stats.gamma(2.5, scale=1 / 2.5),
    ),
    "censored": (censored(lambda e: pm.Weibull.dist(1.5, exp(e))), stats.weibull_min(1.5)),
    "censored rate": (censored(lambda e: pm.Exponential.dist(exp(-e))), stats.expon()),
    "censored twice": (
        censored(lambda e: pm.Weibull.dist(1.5, exp(e)), LOWER),
        stats.weibull_min(1.5),
    ),
}


def model_of(write):
    with pm.Model() as model:
        write(X @ pm.Normal("beta", 0.0, 2.0, shape=2))
    return model


def log_likelihood(name, beta):
    """Of all rows, at coefficients of shape (n, 2)."""
    scale, distribution = np.exp(beta @ X.T), WRITTEN[name][1]
    if not name.startswith("censored"):
        return (distribution.logpdf(Y / scale) - np.log(scale)).sum(axis=1)
    density = distribution.logpdf(Y / scale) - np.log(scale)
    value = np.where(Y < UPPER, density, distribution.logsf(UPPER / scale))
    if name == "censored twice":
        value = np.where(Y > LOWER, value, distribution.logcdf(LOWER / scale))
    return value.sum(axis=1)


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    """The log-likelihood is the model's, but for a constant."""
    (regression,) = read_model(model_of(WRITTEN[name][0])).regressions
    points = np.random.default_rng(1).normal(size=(5, 2))
    found = []
    for beta in points:
        eta = regression.design.predictor(beta)[:, 0]
        columns = [pt.constant(column) for column in regression.y.T]
        found.append(regression.likelihood.log_likelihood([pt.constant(eta)], columns).sum().eval())
    expected = log_likelihood(name, points)
    differences = np.array(found) - expected
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-12 * max(-expected))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (FireflyMH, "gamma mean"),
        (FireflyMH, "censored"),
        (FireflyHMC, "censored"),
        (FireflyMH, "censored twice"),
    ],
)
def test_posterior_by_quadrature(kind, name):
    with model_of(WRITTEN[name][0]) as model:
        step = kind(transitions=20)
    assert isinstance(step.bounds[0], Taylor)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=2000, chains=2)

    def log_posterior(beta):
        return log_likelihood(name, beta) + stats.norm.logpdf(beta, 0.0, 2.0).sum(axis=1)

    assert_matches(draws, quadrature(log_posterior, [-2.0, -2.0], [3.0, 3.0]))


def test_few_rows_are_read():
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.ones(50_000), rng.normal(size=(50_000, 4))])
    y = np.exp(rows @ [0.5, 0.3, -0.3, 0.1, 0.0]) * rng.weibull(1.5, size=50_000)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=5)
        scale = pm.Weibull.dist(1.5, exp(rows @ beta))
        pm.Censored("y", scale, lower=None, upper=2.0, observed=np.minimum(y, 2.0))
        step = FireflyMH()
    _, drawn = drive(step, model.initial_point(), tune=200, draws=300)
    assert drawn["likelihood_queries"].mean() < 500


def impossible(value):
    y = Y.copy()
    y[3] = value
    return lambda e: pm.Weibull("y", 1.5, exp(e), observed=y)


BAD = {
    "no scale": (lambda e: pm.Weibull("y", 1.5, exp(e) + 1.0, observed=Y), "its scale is not"),
    "a shape for each row": (
        lambda e: pm.Weibull("y", np.full(N, 1.5), exp(e), observed=Y),
        "alpha of the observed variable 'y' has a value for each row",
    ),
    "gamma": (censored(lambda e: pm.Gamma.dist(2.5, exp(-e))), "no observed variable"),
    "a free limit": (
        lambda e: pm.Censored(
            "y", pm.Exponential.dist(exp(-e)), lower=pm.HalfNormal("l"), upper=None, observed=Y
        ),
        "limits of censoring that are data",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    write, message = BAD[name]
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model_of(write))


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_impossible_values(value):
    with pytest.raises(ValueError, match="y has 1 values that are not positive"):
        read_model(model_of(impossible(value)))


def test_zeros_of_an_exponential_variable():
    """Zero has a density there; censored from the left at zero it has none."""
    y = np.where(np.arange(N) % 3, Y, 0.0)

    def write(**limits):
        e = pm.Exponential.dist(scale=exp(X @ pm.Normal("beta", 0.0, 2.0, shape=2)))
        return pm.Censored("y", e, observed=y, **limits)

    with pm.Model() as model:
        write(lower=None, upper=np.inf)
    (regression,) = read_model(model).regressions
    y_of_rows, eta = [pt.constant(column) for column in regression.y.T], pt.constant(ETA)
    found = regression.likelihood.log_likelihood([eta], y_of_rows).eval()
    np.testing.assert_allclose(found, stats.expon.logpdf(y, scale=np.exp(ETA)), rtol=1e-12)
    with pm.Model() as model:
        write(lower=0.0, upper=None)
    with pytest.raises(ValueError, match="20 values that are not zero or more and finite"):
        read_model(model)


def test_a_value_beyond_its_limit():
    def write(e):
        pm.Censored("y", pm.Exponential.dist(exp(e)), lower=None, upper=UPPER, observed=2 * UPPER)

    with pytest.raises(ValueError, match="beyond the limit"):
        read_model(model_of(write))


def test_the_family_is_what_the_model_has():
    for name, expected in (("weibull", Durations(1.5, 1.5)), ("gamma", Durations(1.0, 2.5))):
        (regression,) = read_model(model_of(WRITTEN[name][0])).regressions
        assert regression.likelihood == expected
