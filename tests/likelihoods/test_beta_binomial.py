"""Successes in trials whose chance varies: reading, limits on derivatives, the bound, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import gammaln

from pymc_flymc import Taylor, UnsupportedModelError, weighted
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import BetaBinomial
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import load_data, standardised
from tests.support.nuts import assert_match_nuts
from tests.support.readings import check_density
from tests.support.steps import drive, step_of

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
#: Rows without a trial, with a single one and with many.
TRIALS = np.resize([0, 1, 2, 7, 1000], N)
Y = RNG.binomial(TRIALS, RNG.beta(2.0, 3.0, N))
sigmoid, exp = pm.math.sigmoid, pm.math.exp


def coefficients(name="b"):
    return X @ pm.Normal(name, 0.0, 1.0, shape=3)


def free():
    return pm.HalfNormal("nu", 10.0)


def shapes(e, nu, n=TRIALS):
    return dict(n=n, alpha=sigmoid(e) * nu, beta=(1 - sigmoid(e)) * nu)


#: Shapes and trials that a user may write.
WRITTEN = {
    "free": lambda e: shapes(e, free()),
    "minus": lambda e: dict(n=TRIALS, alpha=(nu := free()) * sigmoid(e), beta=nu * sigmoid(-e)),
    "given": lambda e: shapes(e, 5.0, n=1000),
    "given for rows": lambda e: shapes(e, np.linspace(1.0, 9.0, N), n=pm.Data("n", TRIALS)),
    "regressed": lambda e: shapes(e, exp(coefficients("g"))),
    "correlation": lambda e: shapes(e, 1.0 / pm.Beta("rho", 1.0, 1.0) - 1.0),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    with pm.Model() as model:
        pm.BetaBinomial("y", **WRITTEN[name](coefficients()), observed=Y)
    reading = read_model(model)
    (part,) = reading.regressions
    assert isinstance(part.likelihood, BetaBinomial)
    trials = np.full(N, 1000) if name == "given" else TRIALS
    np.testing.assert_array_equal(part.y, np.column_stack([Y, trials]))
    check_density(model, reading)


def test_weights():
    with pm.Model() as model:
        distribution = pm.BetaBinomial.dist(**shapes(coefficients(), free()))
        weighted("y", distribution, np.arange(N) % 3, observed=Y)
    reading = read_model(model)
    assert reading.regressions[0].likelihood.name == "weighted beta-binomial"
    check_density(model, reading)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda e: dict(n=9, alpha=exp(e), beta=2.0), "its mean is not the logistic"),
        (
            lambda e: dict(n=9, alpha=free() * sigmoid(e), beta=pm.HalfNormal("b2") * sigmoid(-e)),
            "its mean is not the logistic function .* one nu for all rows",
        ),
        (
            lambda e: shapes(e, 2.0, n=1000 + exp(e[0]).astype("int64")),
            "n of the observed variable 'y' depends on other variables",
        ),
    ],
)
def test_models_that_are_refused(write, message):
    with pm.Model() as model:
        pm.BetaBinomial("y", **write(coefficients()), observed=Y)
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model)


@pytest.mark.parametrize(
    ("nu", "n", "message"),
    [
        (2.0, -1, "n of the observed variable 'y' is -1; it must be zero or more"),
        (2.0, 9, r"y has \d+ values that are not counts between 0 and n, first in row 4: .* n = 9"),
        (-2.0, 1000, r"alpha \+ beta of the observed variable 'y' is -2"),
    ],
)
def test_impossible_numbers(nu, n, message):
    with pm.Model() as model:
        pm.BetaBinomial("y", **shapes(coefficients(), nu, n=n), observed=Y)
    with pytest.raises(ValueError, match=message):
        read_model(model)


# --- derivatives --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood and its first three derivatives along a direction."""
    eta, tau, u, v, y, n = (pt.dvector(name) for name in ("eta", "tau", "u", "v", "y", "n"))
    t = pt.zeros_like(eta)
    out = [BetaBinomial().log_likelihood([eta + t * u, tau + t * v], [y, n])]
    for _ in range(3):
        out.append(pytensor.grad(out[-1].sum(), t))
    mode = pytensor.compile.Mode(linker="py", optimizer="merge")
    return pytensor.function([eta, tau, u, v, y, n], out, mode=mode)


def test_log_likelihood(graphs):
    """As SciPy has it, but for the binomial coefficient."""
    rng, n = np.random.default_rng(0), 2000
    eta, tau = rng.normal(0.0, 3.0, n), rng.normal(1.0, 3.0, n)
    trials = rng.integers(0, 10.0 ** rng.integers(0, 5, n), endpoint=True)
    y = rng.binomial(trials, rng.beta(0.5, 0.5, n))
    found = graphs(eta, tau, eta, tau, y.astype(float), trials.astype(float))[0]
    phi = np.exp(tau)
    distribution = stats.betabinom(trials, phi / (1.0 + np.exp(-eta)), phi / (1.0 + np.exp(eta)))
    coefficient = gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)
    # Those are differences of logarithms of gamma functions.
    rounding = 64 * np.finfo(float).eps * (1.0 + (trials + phi) * (10.0 + np.abs(tau)))
    assert np.all(np.abs(found + coefficient - distribution.logpmf(y)) <= rounding)


def test_far_out(graphs):
    """Numbers, and of a large nu those of a binomial variable."""
    ends = [-1e3, -40.0, -1.0, 0.0, 39.9, 40.1, 1e3]
    trials = [0.0, 1.0, 2.0, 1e6]
    eta, tau, share, n = map(np.ravel, np.meshgrid(ends, ends, [0.0, 0.5, 1.0], trials))
    y = np.round(share * n)
    value, *derivatives = graphs(eta, tau, np.ones_like(eta), np.ones_like(eta), y, n)
    assert np.all(np.isfinite(value)) and np.all(np.isfinite(derivatives))
    binomial = y * eta - n * np.logaddexp(0.0, eta)
    sure = (tau > 50.0) & (np.abs(eta) < 30.0)
    rounding = 1e-15 * n * tau
    assert np.all(np.abs(value - binomial)[sure] <= rounding[sure] + 1e-12)


def test_limits_on_the_derivatives(graphs):
    """No less than what there is within a half-width, nor than what there is far away."""
    rng, n, family = np.random.default_rng(0), 20_000, BetaBinomial()
    eta = np.stack([rng.normal(0.0, 2.0, n), rng.normal(2.0, 2.0, n)])
    spread = np.exp(rng.normal(size=(2, n)))
    half_width = 10.0 ** rng.uniform(-4.0, 0.7, n) * spread
    trials = rng.integers(0, 10.0 ** rng.integers(0, 4, n), endpoint=True)
    y = np.stack([rng.binomial(trials, rng.beta(0.5, 0.5, n)), trials], axis=1).astype(float)
    there = eta + half_width * rng.uniform(-1.0, 1.0, (2, n))
    direction = spread * rng.choice([-1.0, 0.3, 1.0], (2, n))
    found = np.abs(graphs(*there, *direction, *y.T)[3])
    # Terms that cancel are of the size of n.
    rounding = 1e-11 * trials * spread.max(axis=0) ** 3
    near = family.third_bound(eta, half_width, spread, y)
    far, rate = family.third_beyond(eta, spread, y)
    assert not rate.any()
    assert np.all(found <= near * (1 + 1e-9) + rounding)
    assert np.all(near <= far * (1 + 1e-9))


@pytest.mark.slow
def test_bound():
    """Trials of one in some rows: what they say of nu is nothing."""
    for trials in (TRIALS, np.minimum(TRIALS, 1)):
        check_bound(Taylor(), BetaBinomial(), np.column_stack([np.minimum(Y, trials), trials]))


# --- exactness ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 400])
def test_posterior_by_quadrature(n):
    """An intercept, and the logarithm of nu."""
    rng = np.random.default_rng(n)
    x, trials = np.linspace(-1.0, 1.0, n), rng.integers(0, 30, n)
    mean = 1.0 / (1.0 + np.exp(-0.5 - x))
    y = rng.binomial(trials, rng.beta(8.0 * mean, 8.0 * (1.0 - mean)))
    with pm.Model() as model:
        nu, b = pm.Exponential("nu", 0.1), pm.Normal("b", 0.0, 1.0)
        pm.BetaBinomial("y", **shapes(b + x, nu, n=trials), observed=y)

    def log_density(points):
        log_nu, b = points[:, :1], points[:, 1:]
        mean, nu = 1.0 / (1.0 + np.exp(-b - x)), np.exp(log_nu)
        rows = stats.betabinom(trials, nu * mean, nu * (1.0 - mean)).logpmf(y).sum(axis=1)
        return rows + (log_nu - 0.1 * nu - 0.5 * b**2).ravel()

    step = step_of(model, transitions=30)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, quadrature(log_density, [-2.0, -4.0], [7.0, 4.0]))


def routes():
    """Columns of routes by carrier, weekday and month, their flights, and which came late."""
    flights = load_data("flights_pnw")
    names = list(flights["feature_names"])
    X = flights["X"]
    columns = [names.index(name) for name in ("carrier", "dest", "origin", "month")]
    keys, place, trials = np.unique(X[:, columns], axis=0, return_inverse=True, return_counts=True)
    place = place.ravel()
    late = np.bincount(place, flights["y"] > 15).astype(int)
    means = [
        np.bincount(place, X[:, names.index(name)]) / trials
        for name in ("sched_dep_minute", "distance_miles", "dow")
    ]
    season = [f(2.0 * np.pi * keys[:, 3] / 12.0) for f in (np.sin, np.cos)]
    return standardised(np.column_stack([*means, *season])), trials, late


@pytest.mark.slow
def test_real_data_against_nuts():
    """Late flights of a carrier to a place in a month."""
    chosen = np.random.default_rng(0).choice(4000, 1000, replace=False)
    rows, trials, late = (each[chosen] for each in routes())
    with pm.Model() as model:
        b, nu = pm.Normal("b", 0.0, 1.0, shape=rows.shape[1]), pm.Exponential("nu", 0.1)
        pm.BetaBinomial("y", **shapes(rows @ b, nu, n=trials), observed=late)
    assert_match_nuts(model, step_of(model))
