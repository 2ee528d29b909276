"""Posteriors with Weibull and gamma outcomes of free shape."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice, ScaledTaylor, Taylor
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import load_data, standardised
from tests.support.nuts import assert_match_nuts
from tests.support.steps import drive, step_of

exp = pm.math.exp


def simulated(kind, n):
    """Model of an intercept and a shape, and its log posterior in (b, log k)."""
    rng, end = np.random.default_rng(n), 1.5
    y = np.exp(0.3) * (rng.gamma(2.5, 0.4, n) if kind == "gamma" else rng.weibull(1.5, n))
    kept = y if kind == "gamma" else np.minimum(y, end)
    with pm.Model() as model:
        mean = exp(np.ones((n, 1)) @ pm.Normal("b", 0.0, 2.0, shape=1))
        k = pm.HalfNormal("k", 2.0)
        if kind == "gamma":
            pm.Gamma("y", alpha=k, beta=k / mean, observed=y)
        else:
            pm.Censored("y", pm.Weibull.dist(k, mean), lower=None, upper=end, observed=kept)

    def log_density(points):
        scale, k = np.exp(points[:, :1]), np.exp(points[:, 1:])
        if kind == "gamma":
            value = stats.gamma.logpdf(y, k, scale=scale / k)
        else:
            distribution = stats.weibull_min(k, scale=scale)
            value = np.where(y < end, distribution.logpdf(kept), distribution.logsf(kept))
        prior = stats.norm.logpdf(points[:, 0], 0.0, 2.0) - k[:, 0] ** 2 / 8.0 + points[:, 1]
        return value.sum(axis=1) + prior

    return model, log_density


KERNELS = {
    "joint": (FireflyMH, {"kernel": "joint"}),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}),
    "conditional": (FireflyMH, {"kernel": "metropolis", "transitions": 300}),
    "all rows": (FireflyMH, {"bound": None}),
    "trajectories": (FireflyHMC, {}),
    "slices": (FireflySlice, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        ("gamma", "joint"),
        ("gamma", "surrogate"),
        ("gamma", "conditional"),
        ("gamma", "trajectories"),
        ("gamma", "slices"),
        ("gamma", "all rows"),
        ("weibull", "joint"),
        ("weibull", "trajectories"),
        ("weibull", "surrogate"),
        ("weibull", "conditional"),
    ],
)
def test_posterior_by_quadrature(kind, kernel):
    model, log_density = simulated(kind, 25)
    cls, settings = KERNELS[kernel]
    step = step_of(model, cls, **{"transitions": 40, **settings})
    if kernel != "all rows":
        assert isinstance(step.bounds[0], ScaledTaylor if kind == "gamma" else Taylor)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=4000, chains=2)
    assert_matches(draws, quadrature(log_density, [-2.0, -2.0], [3.0, 3.0]))


@pytest.mark.slow
def test_walks_of_a_surrogate_with_a_nuisance_parameter():
    """Few rows, so that remainders are large: the walks' ratio needs those of all rows."""
    model, log_density = simulated("gamma", 12)
    step = step_of(model, kernel="surrogate", transitions=10)
    assert len(step.target.data.exact.X) < 12
    draws, _ = drive(step, model.initial_point(), tune=300, draws=1500, chains=2)
    assert_matches(draws, quadrature(log_density, [-2.0, -2.0], [3.0, 3.0]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gamma", "weibull"])
def test_posterior_of_more_rows(kind):
    """With ``pm.sample``, as users do."""
    model, log_density = simulated(kind, 400)
    with model:
        idata = pm.sample(
            step=FireflyMH(transitions=4),
            tune=500,
            draws=4000,
            chains=2,
            cores=1,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert idata.sample_stats["likelihood_queries"].mean() < 200
    parts = [idata.posterior["b"].to_numpy(), np.log(idata.posterior["k"].to_numpy())[..., None]]
    draws = np.concatenate(parts, axis=2)
    assert_matches(draws, quadrature(log_density, [-2.0, -2.0], [3.0, 3.0]))


# --- real data ----------------------------------------------------------------------------------


def diamonds():
    """Prices by weight and grades: a gamma regression."""
    data = load_data("diamonds")
    chosen = np.random.default_rng(0).choice(len(data["X"]), 3000, replace=False)
    columns = data["X"][chosen, :6].astype(float)
    rows = standardised(np.column_stack([np.log(columns[:, 0]), columns[:, 1:]]))
    beta, k = pm.Normal("beta", 0.0, 2.0, shape=rows.shape[1]), pm.HalfNormal("k", 20.0)
    mean = 1000.0 * exp(rows @ beta)
    pm.Gamma("y", alpha=k, beta=k / mean, observed=data["y"][chosen].astype(float))


def houses():
    """House values by incomes, those above half a million cut off there: a Weibull regression."""
    data = load_data("california_housing")
    chosen = np.random.default_rng(0).choice(len(data["X"]), 2000, replace=False)
    columns, y = data["X"][chosen].astype(float), data["y"][chosen].astype(float) / 1e5
    rows = standardised(np.log(columns[:, [2, 5, 7]]))  # age, people, income
    beta = pm.Normal("beta", 0.0, 2.0, shape=rows.shape[1])
    # Where PyMC's density of values beyond the limit does not underflow.
    k = pm.HalfNormal("k", 5.0, initval=1.0)
    distribution = pm.Weibull.dist(k, exp(rows @ beta))
    end = 5.0
    assert np.mean(y >= end) > 0.03
    pm.Censored("y", distribution, lower=None, upper=end, observed=np.minimum(y, end))


@pytest.mark.slow
@pytest.mark.parametrize("write", [diamonds, houses])
def test_real_data_against_nuts(write):
    with pm.Model() as model:
        write()
    steps = (step_of(model, kind) for kind in (FireflyMH, FireflyHMC))
    # Without jitter: outlying rows have densities of zero where it may lead.
    assert_match_nuts(model, *steps, nuts=dict(init="adapt_diag", tune=1500, draws=5000))
