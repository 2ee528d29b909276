"""Weibull and gamma outcomes of free shape: reading, rows, exactness."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_flymc import (
    FireflyHMC,
    FireflyMH,
    FireflySlice,
    ScaledTaylor,
    Taylor,
    UnsupportedModelError,
    weighted,
)
from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.likelihoods import outcome
from pymc_flymc.reading.model import read_model
from pymc_flymc.reading.variables import value_variables
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.data import load_data, standardised
from tests.support.readings import value_of
from tests.support.steps import drive, step_of

exp = pm.math.exp

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
Y = np.exp(X @ [0.5, 0.4]) * RNG.weibull(1.5, size=N)
UPPER = np.quantile(Y, 0.7) * np.linspace(0.8, 1.2, N)
GROUP, WEIGHTS = RNG.integers(0, 5, N), RNG.integers(0, 3, N).astype(float)


def eta():
    return X @ pm.Normal("beta", 0.0, 2.0, shape=2)


def gamma(make, observed=Y):
    """A gamma variable, from its shape."""
    shape = pm.HalfNormal("k", 2.0)
    return pm.Gamma("y", observed=observed, **make(shape))


def censored(scale, weights=None):
    law = pm.Weibull.dist(pm.HalfNormal("k", 2.0), scale)
    settings = dict(lower=None, upper=UPPER)
    if weights is None:
        return pm.Censored("y", law, observed=np.minimum(Y, UPPER), **settings)
    kept = np.minimum(Y, UPPER)
    return weighted("y", pm.Censored.dist(law, **settings), weights, observed=kept)


#: What a user may write, with the number of coefficients, that of log alpha included.
WRITTEN = {
    "weibull": (
        lambda: pm.Weibull("y", pm.HalfNormal("k", 2.0), exp(eta()), observed=Y),
        3,
    ),
    "weibull, a function": (
        lambda: pm.Weibull("y", 1.0 + exp(pm.Normal("k")), 2.0 * exp(eta()), observed=Y),
        4,
    ),
    "weibull by its mean": (
        lambda: (lambda k: pm.Weibull("y", k, exp(eta()) / pt.gamma(1 + 1 / k), observed=Y))(
            pm.HalfNormal("k", 2.0)
        ),
        4,
    ),
    "weibull alone": (
        lambda: pm.Weibull("y", pm.HalfNormal("k", 2.0), pm.HalfNormal("s"), observed=Y),
        2,
    ),
    "censored": (lambda: censored(exp(eta())), 3),
    "censored, groups": (lambda: censored(exp(eta() + pm.Normal("a", shape=5)[GROUP])), 8),
    "censored, weights": (lambda: censored(exp(eta()), WEIGHTS), 3),
    "gamma": (lambda: gamma(lambda a: dict(alpha=a, beta=a / exp(eta()))), 3),
    "gamma, exposures": (lambda: gamma(lambda a: dict(alpha=a, beta=a / (UPPER * exp(eta())))), 3),
    "gamma by its rate": (lambda: gamma(lambda a: dict(alpha=a, beta=exp(-eta()))), 4),
    "gamma by its scale": (
        lambda: gamma(lambda a: dict(alpha=a, beta=1 / exp(eta())), pm.Data("values", Y)),
        4,
    ),
    "gamma alone": (lambda: gamma(lambda a: dict(alpha=a, beta=pm.HalfNormal("b"))), 2),
    "gamma, weights": (
        lambda: (
            lambda a: weighted("y", pm.Gamma.dist(a, beta=a / exp(eta())), WEIGHTS, observed=Y)
        )(pm.HalfNormal("k", 2.0)),
        3,
    ),
}


def log_likelihoods(regression, w):
    """Of the rows of a regression, at coefficients."""
    family, design, columns = regression.likelihood, regression.design, regression.y
    arguments = [*design.predictor(w).T, *w[len(w) - len(family.nuisances) :]]
    y = outcome(family, [pt.constant(c) for c in columns.reshape(len(columns), -1).T])
    return plain_function([], family.log_likelihood([pt.constant(a) for a in arguments], y))()


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    """Rows and what is left are the model's own density, but for a constant."""
    write, n_coefficients = WRITTEN[name]
    with pm.Model() as model:
        write()
    reading = read_model(model)
    (regression,), (w,) = reading.regressions, reading.coefficients
    assert regression.design.n_coefficients == n_coefficients
    start, rng, differences = model.initial_point(), np.random.default_rng(1), []
    logp = model.compile_logp()
    for _ in range(4):
        point = {v: x + 0.5 * rng.normal(size=np.shape(x)) for v, x in start.items()}
        rows = log_likelihoods(regression, value_of(w, point)).sum()
        differences.append(rows + value_of(reading.rest_logp, point) - logp(point))
        assert abs(rows) < 1e6  # or digits would be lost
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-9)


def test_other_outcomes_are_noticed():
    """Those of a free shape are in the design."""
    with pm.Model() as model:
        values = pm.Data("values", Y)
        pm.Weibull("y", pm.HalfNormal("k", 2.0), exp(eta()), observed=values)
    before = read_model(model).regressions[0].design.X
    with model:
        step = FireflyMH(transitions=4)
        pm.set_data({"values": 2.0 * Y})
        point = model.initial_point()
        drive(step, point, tune=4, draws=4)
    after = step.target.data.rows.X
    np.testing.assert_allclose(after[:, 2] - before[:, 2], np.log(2.0), rtol=1e-12)


def test_step_that_leaves_the_shape_to_another_is_refused():
    with pm.Model() as model:
        WRITTEN["weibull"][0]()
    with pytest.raises(UnsupportedModelError, match=r"depends on \['k'\]"):
        read_model(model, ["beta"])
    assert len(value_variables(model, None)) == 2


# --- exactness ----------------------------------------------------------------------------------


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
            law = stats.weibull_min(k, scale=scale)
            value = np.where(y < end, law.logpdf(kept), law.logsf(kept))
        prior = stats.norm.logpdf(points[:, 0], 0.0, 2.0) - k[:, 0] ** 2 / 8.0 + points[:, 1]
        return value.sum(axis=1) + prior

    return model, log_density


KERNELS = {
    "joint": (FireflyMH, {"kernel": "joint"}),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}),
    "given z": (FireflyMH, {"kernel": "metropolis", "transitions": 300}),
    "all rows": (FireflyMH, {"bound": None}),
    "trajectories": (FireflyHMC, {}),
    "slices": (FireflySlice, {}),
}


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [
        ("gamma", "joint"),
        ("gamma", "surrogate"),
        ("gamma", "given z"),
        ("gamma", "trajectories"),
        pytest.param("gamma", "slices", marks=pytest.mark.slow),
        pytest.param("gamma", "all rows", marks=pytest.mark.slow),
        ("weibull", "joint"),
        ("weibull", "trajectories"),
        pytest.param("weibull", "surrogate", marks=pytest.mark.slow),
        pytest.param("weibull", "given z", marks=pytest.mark.slow),
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
    """House values by area, those above half a million cut off there: a Weibull regression."""
    data = load_data("california_housing")
    chosen = np.random.default_rng(0).choice(len(data["X"]), 3000, replace=False)
    rows, y = standardised(data["X"][chosen]), data["y"][chosen].astype(float) / 1e5
    beta, k = pm.Normal("beta", 0.0, 2.0, shape=rows.shape[1]), pm.HalfNormal("k", 5.0)
    law = pm.Weibull.dist(k, exp(rows @ beta))
    end = 5.0
    assert np.mean(y >= end) > 0.03
    pm.Censored("y", law, lower=None, upper=end, observed=np.minimum(y, end))


@pytest.mark.slow
@pytest.mark.parametrize("write", [diamonds, houses])
def test_real_data_against_nuts(write):
    with pm.Model() as model:
        write()
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=4)

    def draws(idata):
        k = idata.posterior["k"].to_numpy()[..., None]
        return np.concatenate([idata.posterior["beta"].to_numpy(), k], axis=2)

    # Without jitter: outlying rows have densities of zero where it may lead.
    nuts = dict(nuts_sampler="pymc", init="adapt_diag", tune=1500, draws=5000)
    reference = reference_from_draws(draws(pm.sample(**nuts, **options)))
    for kind in (FireflyMH, FireflyHMC):
        ours = pm.sample(step=step_of(model, kind), tune=1000, draws=10_000, **options)
        assert_matches(draws(ours), reference)
