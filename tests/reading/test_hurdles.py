"""Hurdles: what is read of zeros and of the values beyond them, and exactness."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import (
    FireflyHMC,
    FireflyMH,
    FireflySlice,
    JaakkolaJordan,
    Taylor,
    UnsupportedModelError,
    weighted,
)
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import late_flights, log_sigmoid
from tests.support.nuts import assert_match_nuts
from tests.support.readings import check_density, value_of
from tests.support.steps import drive, step_of

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
Y = RNG.poisson(np.exp(X @ [0.3, 0.5, -0.3])) * (RNG.random(N) < 0.7)
WEIGHTS = RNG.integers(0, 3, N)
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def coefficients(name="b"):
    return X @ pm.Normal(name, 0.0, 1.0, shape=3)


def chance():
    return pm.Beta("psi", 1.0, 1.0)


def regressed():
    return sigmoid(coefficients("g"))


#: What a user may write, and families and numbers of the rows that it makes.
ABOVE = int((Y > 0).sum())
WRITTEN = {
    "scalar": (
        lambda: pm.HurdlePoisson("y", chance(), exp(coefficients()), observed=Y),
        [("zero-truncated-poisson", ABOVE)],
    ),
    "given": (
        lambda: pm.HurdlePoisson("y", 0.3, exp(coefficients()), observed=Y),
        [("zero-truncated-poisson", ABOVE)],
    ),
    "regressed": (
        lambda: pm.HurdlePoisson("y", regressed(), exp(coefficients()), observed=Y),
        [("zero-truncated-poisson", ABOVE), ("bernoulli-logit", N)],
    ),
    "the same coefficients": (
        lambda: pm.HurdlePoisson("y", sigmoid((e := coefficients()) - 1), exp(e), observed=Y),
        [("zero-truncated-poisson", ABOVE), ("bernoulli-logit", N)],
    ),
    "cloglog": (
        lambda: pm.HurdlePoisson(
            "y", 1.0 - exp(-exp(coefficients("g"))), exp(coefficients()), observed=Y
        ),
        [("zero-truncated-poisson", ABOVE), ("bernoulli-cloglog", N)],
    ),
    "negative binomial": (
        lambda: pm.HurdleNegativeBinomial(
            "y", regressed(), mu=exp(coefficients()), alpha=np.linspace(0.5, 3.0, N), observed=Y
        ),
        [("zero-truncated-negative-binomial", ABOVE), ("bernoulli-logit", N)],
    ),
    "gamma": (
        lambda: pm.HurdleGamma(
            "y", regressed(), alpha=2.0, beta=2.0 / exp(coefficients()), observed=0.5 * Y
        ),
        [("durations", ABOVE), ("bernoulli-logit", N)],
    ),
    "gamma of a free shape": (
        lambda: pm.HurdleGamma(
            "y",
            0.3,
            alpha=(a := pm.HalfNormal("a")),
            beta=a / exp(coefficients()),
            observed=Y + 0.0,
        ),
        [("gamma-free", ABOVE)],
    ),
    "log-normal": (
        lambda: pm.HurdleLogNormal(
            "y", chance(), coefficients(), pm.HalfNormal("sigma"), observed=0.5 * Y
        ),
        [("normal", ABOVE)],
    ),
    "weighted": (
        lambda: weighted(
            "y", pm.HurdlePoisson.dist(chance(), exp(coefficients())), WEIGHTS, observed=Y
        ),
        [("weighted zero-truncated-poisson", int((WEIGHTS[Y > 0] > 0).sum()))],
    ),
    "weighted and regressed": (
        lambda: weighted(
            "y", pm.HurdlePoisson.dist(regressed(), exp(coefficients())), WEIGHTS, observed=Y
        ),
        [
            ("weighted zero-truncated-poisson", int((WEIGHTS[Y > 0] > 0).sum())),
            ("binomial-logit", int((WEIGHTS > 0).sum())),
        ],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.slow_cases("cloglog")
def test_reading(name):
    """The rows and what is left of the density are the model's own, but for a constant."""
    write, parts = WRITTEN[name]
    with pm.Model() as model:
        write()
    reading = read_model(model)
    found = [(part.likelihood.name, part.design.n_rows) for part in reading.regressions]
    assert found == parts
    assert [part.name for part in reading.regressions] == ["y", "y > 0"][: len(parts)]
    assert not reading.full_passes
    check_density(model, reading)


def test_no_zeros():
    """psi may be one then, where its density has no logarithm of nothing, and not more."""
    with pm.Model() as model:
        psi = pm.Gamma("psi", 400.0, 400.0, default_transform=None)
        pm.HurdlePoisson("y", psi, exp(coefficients()), observed=Y + 1)
    logp = read_model(model).prior_logp
    assert np.isfinite(value_of(logp, {"psi": 1.0, "b": np.zeros(3)}))
    assert value_of(logp, {"psi": 1.0 + 1e-9, "b": np.zeros(3)}) == -np.inf


# --- exactness ----------------------------------------------------------------------------------


def simulated(n):
    rng = np.random.default_rng(n)
    x = np.linspace(-1.0, 1.0, n)
    y = rng.poisson(np.exp(0.4 + 0.5 * x)) * (rng.random(n) < 1.0 / (1.0 + np.exp(-1.0 - x)))
    return x, y


def log_counts(eta, y):
    """Of values above zero."""
    mean = np.exp(eta)
    return np.sum(stats.poisson(mean).logpmf(y) - np.log(-np.expm1(-mean)), axis=1)


def with_a_scalar(n):
    """An intercept and the log odds of psi."""
    x, y = simulated(n)
    with pm.Model() as model:
        psi = pm.Beta("psi", 1.0, 1.0)
        pm.HurdlePoisson("y", psi, exp(0.5 * x + pm.Normal("b", 0.0, 1.0)), observed=y)

    def log_density(points):
        log_odds, b = points.T
        above = y > 0
        zeros = (above.sum() + 1) * log_sigmoid(log_odds) + ((~above).sum() + 1) * log_sigmoid(
            -log_odds
        )
        return log_counts(b[:, None] + 0.5 * x[above], y[above]) + zeros - 0.5 * b**2

    return model, quadrature(log_density, [-6.0, -6.0], [8.0, 6.0])


def with_coefficients(n):
    """An intercept of both parts and a slope of psi."""
    x, y = simulated(n)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        pm.HurdlePoisson("y", sigmoid(b[0] + b[1] * x), exp(b[0] + 0.5 * x), observed=y)

    def log_density(points):
        eta = points[:, :1] + points[:, 1:] * x
        above = y > 0
        zeros = log_sigmoid(np.where(above, eta, -eta)).sum(axis=1)
        counts = log_counts(points[:, :1] + 0.5 * x[above], y[above])
        return counts + zeros - 0.5 * np.sum(points**2, axis=1)

    return model, quadrature(log_density, [-6.0, -6.0], [6.0, 6.0])


@pytest.mark.slow
@pytest.mark.parametrize("n", [25, 400])
@pytest.mark.parametrize(
    ("problem", "kind", "settings", "transitions"),
    [
        (with_a_scalar, FireflyMH, {}, 30),
        (with_a_scalar, FireflyMH, {"bound": Taylor(order=3)}, 30),
        (with_coefficients, FireflyMH, {}, 30),
        (with_coefficients, FireflyMH, {"bound": Taylor()}, 30),
        (with_coefficients, FireflyMH, {"bound": {"y > 0": JaakkolaJordan(slack=4)}}, 30),
        (with_coefficients, FireflyHMC, {}, 8),
        (with_coefficients, FireflySlice, {}, 10),
    ],
)
def test_posterior_by_quadrature(problem, kind, settings, transitions, n):
    model, reference = problem(n)
    step = step_of(model, kind, transitions=transitions, **settings)
    assert len(step.target.parts) == (1 if problem is with_a_scalar else 2)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, reference)


@pytest.mark.slow
def test_few_rows_are_read():
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.ones(30_000), rng.normal(size=(30_000, 3))])
    y = rng.poisson(np.exp(rows @ [0.5, 0.3, -0.2, 0.1]))
    while not y.all():
        y = np.where(y > 0, y, rng.poisson(np.exp(rows @ [0.5, 0.3, -0.2, 0.1])))
    y *= rng.random(30_000) < 0.6
    with pm.Model() as model:
        b, g = (pm.Normal(name, 0.0, 1.0, shape=4) for name in "bg")
        pm.HurdlePoisson("y", sigmoid(rows @ g), exp(rows @ b), observed=y)
    options = dict(tune=200, draws=300, chains=1, random_seed=1, progressbar=False)
    idata = pm.sample(model=model, step=step_of(model), compute_convergence_checks=False, **options)
    assert idata.sample_stats["likelihood_queries"].mean() < 300
    truth = {"b": np.array([0.5, 0.3, -0.2, 0.1]), "g": np.array([np.log(1.5), 0.0, 0.0, 0.0])}
    for name, posterior in idata.posterior.items():
        error = posterior.mean(("chain", "draw")) - truth[name]
        assert np.all(np.abs(error) < 5.0 * posterior.std(("chain", "draw")))


# --- refusals -----------------------------------------------------------------------------------


def test_what_is_refused():
    cases = {
        "'y > 0': its p is not": lambda: pm.HurdlePoisson(
            "y", pm.math.clip(regressed(), 0.1, 0.9), exp(coefficients()), observed=Y
        ),
        "its mu is not the exponential": lambda: pm.HurdlePoisson(
            "y", chance(), pm.math.sqr(coefficients()), observed=Y
        ),
    }
    for message, write in cases.items():
        with pm.Model() as model:
            write()
        with pytest.raises(UnsupportedModelError, match=message):
            read_model(model)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.where(np.arange(N) == 3, -1, Y), "y has 1 values .* zero or more, first in row 3: -1"),
        (0 * Y, "all values of 'y' are zero"),
    ],
)
def test_impossible_values(y, message):
    with pm.Model() as model:
        pm.HurdlePoisson("y", chance(), exp(coefficients()), observed=y)
    with pytest.raises(ValueError, match=message):
        read_model(model)


# --- real data ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_data_against_nuts():
    """Quarters of an hour by which flights are late, most of which are not."""
    rows, y = late_flights(4000)
    with pm.Model() as model:
        b, g = (pm.Normal(name, 0.0, 1.0, shape=rows.shape[1]) for name in "bg")
        pm.HurdleNegativeBinomial("y", sigmoid(rows @ g), mu=exp(rows @ b), alpha=0.5, observed=y)
    assert_match_nuts(model, *(step_of(model, kind) for kind in (FireflyMH, FireflyHMC)))
