"""Censored normal and log-normal outcomes: reading, rows, exactness."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import FireflyHMC, FireflyMH, Taylor, UnsupportedModelError, weighted
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.readings import compare, value_of
from tests.support.steps import drive, step_of

N = 40
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
Y = X @ [0.5, 0.4] + 0.7 * RNG.normal(size=N)
LOWER, UPPER = np.linspace(-0.8, -0.1, N), np.linspace(0.7, 1.4, N)
UNITS, WEIGHTS = np.linspace(0.5, 2.0, N), RNG.integers(0, 3, N).astype(float)


def eta():
    return X @ pm.Normal("beta", 0.0, 2.0, shape=2)


def sigma():
    return pm.HalfNormal("sigma", 1.0)


def tobit(mu, scale, lower=LOWER, upper=UPPER, kind=pm.Normal, y=Y):
    return pm.Censored(
        "y", kind.dist(mu, scale), lower=lower, upper=upper, observed=np.clip(y, lower, upper)
    )


def with_weights():
    distribution = pm.Censored.dist(pm.Normal.dist(eta(), sigma()), lower=None, upper=UPPER)
    weighted("y", distribution, WEIGHTS, observed=np.minimum(Y, UPPER))


#: What a user may write, with the number of coefficients.
WRITTEN = {
    "both": (lambda: tobit(eta(), sigma()), 3),
    "left": (lambda: tobit(eta(), sigma(), lower=0.0, upper=None), 3),
    "right": (lambda: tobit(eta(), sigma(), lower=None), 3),
    "at both limits": (lambda: tobit(eta(), sigma(), lower=np.minimum(LOWER, Y), upper=Y), 3),
    "a known scale": (lambda: tobit(eta(), 0.7), 2),
    "a precision": (
        lambda: pm.Censored(
            "y",
            pm.Normal.dist(eta(), tau=pm.Gamma("t", 2, 1)),
            lower=None,
            upper=UPPER,
            observed=np.minimum(Y, UPPER),
        ),
        3,
    ),
    "units": (lambda: tobit(eta(), sigma() * UNITS), 3),
    "known units": (lambda: tobit(eta(), UNITS), 2),
    "groups": (lambda: tobit(eta() + pm.Normal("a", shape=5)[np.arange(N) % 5], sigma()), 8),
    "one mean": (lambda: tobit(pm.Normal("m"), sigma()), 2),
    "a table": (
        lambda: pm.Censored(
            "y",
            pm.Normal.dist(pm.Normal("a", shape=8)[:, None] - pm.Normal("b", shape=5), sigma()),
            lower=None,
            upper=UPPER.reshape(8, 5),
            observed=np.minimum(Y, UPPER).reshape(8, 5),
        ),
        14,
    ),
    "data": (lambda: tobit(eta(), sigma(), upper=pm.Data("u", UPPER).get_value()), 3),
    "log-normal": (
        lambda: tobit(eta(), sigma(), None, np.exp(UPPER), pm.LogNormal, np.exp(Y)),
        3,
    ),
    "log-normal, both": (
        lambda: tobit(eta(), sigma(), np.exp(LOWER), np.exp(UPPER), pm.LogNormal, np.exp(Y)),
        3,
    ),
    "weights": (with_weights, 3),
}


def model_of(write):
    with pm.Model() as model:
        write()
    return model


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name, any_size):
    """Rows and what is left are the model's own density, but for a constant and PyMC's rounding.

    The root of two in PyMC's normal distribution function is one in single precision.
    """
    write, n_coefficients = WRITTEN[name]
    model = model_of(write)
    reading = read_model(model)
    assert reading.regressions[0].design.n_coefficients == n_coefficients
    assert reading.regressions[0].likelihood.name.endswith("censored-normal")
    compare(model, reading)


def shifted(**changes):
    """Observed values beyond a limit, or impossible ones."""
    settings = dict(lower=LOWER, upper=UPPER) | changes
    return lambda: pm.Censored("y", pm.Normal.dist(eta(), sigma()), **settings)


BAD = {
    "a value beyond its limit": (shifted(observed=2 * UPPER), "beyond the limit of censoring"),
    "one below": (shifted(observed=LOWER - 1.0), "beyond the limit of censoring"),
    "not finite": (shifted(upper=None, observed=np.full(N, np.inf)), "not finite"),
    "not positive": (
        lambda: pm.Censored(
            "y", pm.LogNormal.dist(eta(), sigma()), lower=None, upper=1.0, observed=np.zeros(N)
        ),
        "not positive and finite",
    ),
    "a negative scale": (lambda: tobit(eta(), -1.0), "sigma .* is -1.0"),
    "a scale by rows": (
        lambda: tobit(eta(), pm.math.exp(X[:, 1] * pm.Normal("g"))),
        "sigma of the observed variable 'y' has a value for each row",
    ),
    "a free limit": (
        lambda: pm.Censored(
            "y", pm.Normal.dist(eta(), 1), lower=None, upper=pm.Normal("u"), observed=Y
        ),
        "limits of censoring that are data",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    write, message = BAD[name]
    with pytest.raises((UnsupportedModelError, ValueError), match=message):
        read_model(model_of(write))


def of_two(n, lower=-0.3, upper=0.8):
    """Model of a mean and a scale, and its log posterior in (m, log sigma)."""
    y = np.clip(np.random.default_rng(n).normal(0.3, 0.7, n), lower, upper)
    with pm.Model() as model:
        mean = np.ones((n, 1)) @ pm.Normal("m", 0.0, 1.0, shape=1)
        pm.Censored("y", pm.Normal.dist(mean, sigma()), lower=lower, upper=upper, observed=y)

    def log_density(points):
        m, s = points[:, :1], np.exp(points[:, 1:])
        distribution = stats.norm(m, s)
        value = np.where(y < upper, distribution.logpdf(y), distribution.logsf(upper))
        value = np.where(y > lower, value, distribution.logcdf(lower)).sum(axis=1)
        return value + stats.norm.logpdf(points[:, 0]) - 0.5 * s[:, 0] ** 2 + points[:, 1]

    return model, log_density


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param(FireflyMH, {"kernel": "joint"}, marks=pytest.mark.slow),
        pytest.param(FireflyMH, {"kernel": "surrogate"}, marks=pytest.mark.slow),
        pytest.param(
            FireflyMH, {"kernel": "metropolis", "transitions": 300}, marks=pytest.mark.slow
        ),
        pytest.param(FireflyHMC, {}, marks=pytest.mark.slow),
    ],
)
def test_posterior_by_quadrature(kind, settings):
    model, log_density = of_two(25)
    step = step_of(model, kind, **{"transitions": 40, **settings})
    assert isinstance(step.bounds[0], Taylor)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=4000, chains=2)
    assert_matches(draws, quadrature(log_density, [-2.0, -2.5], [3.0, 2.0]))


def test_a_scale_is_positive_if_all_values_are_censored():
    """No row has the logarithm of it then."""
    with pm.Model() as model:
        sigma = pm.Normal("sigma", 1.0, 1.0)
        normal = pm.Normal.dist(pm.Normal("b") * np.arange(5.0), sigma)
        pm.Censored("y", normal, lower=None, upper=0.0, observed=np.zeros(5))
    logp = read_model(model).prior_logp
    assert np.isfinite(value_of(logp, {"sigma": 0.5, "b": 0.3}))
    assert value_of(logp, {"sigma": -0.5, "b": 0.3}) == -np.inf


@pytest.mark.slow
def test_few_rows_are_read():
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.ones(50_000), rng.normal(size=(50_000, 4))])
    y = rows @ [0.5, 0.3, -0.3, 0.1, 0.0] + rng.normal(size=50_000)
    with pm.Model() as model:
        distribution = pm.Normal.dist(rows @ pm.Normal("beta", 0.0, 1.0, shape=5), sigma())
        pm.Censored("y", distribution, lower=0.0, upper=None, observed=np.maximum(y, 0.0))
        step = FireflyMH(kernel="joint")
    _, drawn = drive(step, model.initial_point(), tune=200, draws=300)
    assert drawn["likelihood_queries"].mean() < 100
