"""Negative binomial counts of a free alpha, without zeros or with more: limits, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import expit

from pymc_flymc import Taylor, UnsupportedModelError, weighted
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import (
    ZeroInflatedNegativeBinomialFree,
    ZeroTruncatedNegativeBinomialFree,
)
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.limits import limit_beyond
from tests.support.readings import check_density
from tests.support.steps import drive, step_of

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
E = RNG.uniform(0.5, 2.0, N)
Y = RNG.negative_binomial(2.0, 0.4, N) * (RNG.random(N) < 0.7)
FAMILIES = [ZeroTruncatedNegativeBinomialFree(), ZeroInflatedNegativeBinomialFree()]
NAMES = [family.name for family in FAMILIES]
KINDS = [pm.HurdleNegativeBinomial, pm.ZeroInflatedNegativeBinomial]
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def coefficients(name="b"):
    return X @ pm.Normal(name, 0.0, 1.0, shape=3)


def free():
    return pm.HalfNormal("alpha", 3.0)


def chance():
    return pm.Beta("psi", 1.0, 1.0)


#: What a user may write, but for the distribution and the counts.
WRITTEN = {
    "one alpha": lambda: dict(psi=chance(), mu=E * exp(coefficients()), alpha=free()),
    "all regressed": lambda: dict(
        psi=sigmoid(coefficients("g")), mu=exp(coefficients()), alpha=2.0 * exp(coefficients("h"))
    ),
    "n and p": lambda: dict(psi=0.3, n=free(), p=sigmoid(coefficients())),
    "n and odds of another number": lambda: dict(
        psi=0.3, n=free(), p=sigmoid(pt.log(2.0) - pt.log(exp(coefficients())))
    ),
}


@pytest.mark.parametrize(
    ("i", "name"),
    [
        (1, "one alpha"),
        (0, "all regressed"),
        (1, "n and p"),
        (1, "n and odds of another number"),
        pytest.param(0, "one alpha", marks=pytest.mark.slow),
        pytest.param(1, "all regressed", marks=pytest.mark.slow),
        pytest.param(0, "n and p", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow_cases("1-one alpha")
def test_reading(i, name):
    with pm.Model() as model:
        KINDS[i]("y", **WRITTEN[name](), observed=Y)
    reading = read_model(model)
    assert type(reading.regressions[0].likelihood) is type(FAMILIES[i])
    assert len(reading.regressions) == (2 if i == 0 and name == "all regressed" else 1)
    check_density(model, reading)


def test_reading_without_a_hurdle_and_with_weights():
    with pm.Model() as model:
        counts = pm.NegativeBinomial.dist(mu=exp(coefficients()), alpha=free())
        weighted("y", pm.Truncated.dist(counts, lower=1), Y % 3, observed=Y + 1)
    reading = read_model(model)
    assert reading.regressions[0].likelihood.name == f"weighted {NAMES[0]}"
    check_density(model, reading)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_models(kind):
    cases = {
        "'y': its alpha is not the exponential function .* Use one alpha for all rows": dict(
            mu=exp, alpha=pm.math.sqr
        ),
        "'y': its mu is not the exponential function": dict(mu=pm.math.sqr, alpha=exp),
    }
    for message, links in cases.items():
        with pm.Model() as model:
            mu, alpha = links["mu"](coefficients()), links["alpha"](coefficients("h"))
            kind("y", psi=0.5, mu=mu, alpha=alpha, observed=Y)
        with pytest.raises(UnsupportedModelError, match=message):
            read_model(model)


# --- derivatives --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood and its first three derivatives along a direction, of each family."""
    return [derivatives(family) for family in FAMILIES]


def derivatives(family):
    eta, u = ([pt.dvector() for _ in range(family.n_predictors)] for _ in range(2))
    y, t = pt.dvector("y"), pt.zeros_like(eta[0])
    ray = [each + t * slope for each, slope in zip(eta, u, strict=True)]
    out = [family.log_likelihood(ray, y)]
    for _ in range(3):
        out.append(pytensor.grad(out[-1].sum(), t))
    mode = pytensor.compile.Mode(linker="py", optimizer="merge")
    return pytensor.function([*eta, *u, y], out, mode=mode)


def exact(eta, tau, y):
    """Log-likelihood of a negative binomial count but for log y!, and log s, far out too."""
    psi = eta - tau
    log_h = np.where(psi < -37.0, psi, np.log(np.logaddexp(0.0, np.maximum(psi, -37.0))))
    terms = [tau, *(np.logaddexp(tau, np.log(j)) for j in range(1, 17))]
    rising = sum(np.where(j < y, term, 0.0) for j, term in enumerate(terms))
    return rising - y * np.logaddexp(0.0, -psi) - np.exp(tau + log_h), tau + log_h


@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
@pytest.mark.slow_cases("zero-truncated-negative-binomial-free")
def test_log_likelihood(graphs, i):
    """Finite far out, with its derivatives, and as the definition has it."""
    rng, n = np.random.default_rng(i), 20_000
    eta, tau, a = 10.0 ** rng.uniform(-1.0, 3.0, (3, n)) * rng.choice([-1.0, 1.0], (3, n))
    eta = np.minimum(eta, 190.0)
    y = rng.choice([1 - i, 1, 2, 17], n).astype(float)
    arguments = [eta, tau, a][: 2 + i]
    value, *rest = graphs[i](*arguments, *np.ones((2 + i, n)), y)
    assert np.all(np.isfinite([value, *rest[:2]]))
    count, log_s = exact(eta, tau, y)
    s = np.exp(np.minimum(log_s, 200.0))
    if i == 0:
        with np.errstate(divide="ignore"):
            expected = count - np.where(log_s < -30.0, log_s, np.log(-np.expm1(-s)))
    else:
        zero = np.logaddexp(0.0, a - s) - np.logaddexp(0.0, a)
        expected = np.where(y == 0, zero, count - np.logaddexp(0.0, -a))
    size = 1.0 + (1.0 + y) * (np.abs(eta) + np.abs(tau)) + np.abs(a) + np.where(y > 0, s, 0.0)
    # Of log s, whose terms are large, s is the exponential function.
    assert np.all(np.abs(value - expected) <= 1e-13 * size * (1.0 + np.abs(tau)))


def test_derivatives_of_the_exponent():
    """The k-th derivative of s, in units of alpha h, is at most one along the unit directions."""
    psi = np.linspace(-30.0, 30.0, 60_001)
    p, h = expit(psi), np.logaddexp(0.0, psi)
    q = 1.0 - p
    orders = [
        [p, h - p],
        [p * q, p**2, h - p - p**2],
        [p * q * (1.0 - 2.0 * p), 2.0 * p**2 * q, p**2 * (2.0 * p - 1.0), h - p - 2.0 * p**3],
    ]
    for order in orders:
        for each in order:
            assert np.all(np.abs(each) <= h)


@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
def test_limits_on_the_derivatives(graphs, i):
    """No less than what there is within a half-width, nor than what there is far away."""
    rng, n, family = np.random.default_rng(i), 20_000, FAMILIES[i]
    k = family.n_predictors
    eta = rng.normal([1.0, 1.0, 0.0][:k], [2.0, 3.0, 2.0][:k], (n, k)).T
    spread = np.exp(rng.normal(size=(k, n)))
    half_width = 10.0 ** rng.uniform(-4.0, 0.7, n) * spread
    y = np.floor(10.0 ** rng.uniform(0.0, 3.0, n)) * (rng.random(n) < (1.0, 0.5)[i])
    y = np.maximum(y, 1 - i)
    there = eta + half_width * rng.uniform(-1.0, 1.0, (k, n))
    direction = spread * rng.choice([-1.0, 0.3, 1.0], (k, n))
    found = np.abs(graphs[i](*there, *direction, y)[3])
    # Of a sum whose terms are as large as those of y and of s.
    rounding = 1e-12 * (1.0 + y + np.exp(there[0])) * np.abs(direction).sum(axis=0) ** 3
    assert np.all(found <= family.third_bound(eta, half_width, spread, y) * (1.0 + 1e-9) + rounding)
    far = limit_beyond(family, eta, there - eta, spread, y)
    assert np.all(found <= far * (1.0 + 1e-9) + rounding)


#: What compiles the rows of both families takes long: the richer one stands for both.
BOTH = [pytest.param(0, marks=pytest.mark.slow, id=NAMES[0]), pytest.param(1, id=NAMES[1])]


@pytest.mark.slow
@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
def test_bound(i):
    y = RNG.negative_binomial(1.0, 0.2, 200)
    check_bound(Taylor(), FAMILIES[i], np.maximum(y, 1 - i))


# --- exactness ----------------------------------------------------------------------------------


def problem(i, n):
    """A model of log alpha and an intercept, of psi as well where zeros are added; its density."""
    rng = np.random.default_rng(n)
    x = np.linspace(-1.0, 1.0, n)
    y = rng.negative_binomial(1.0, 1.0 / (1.0 + np.exp(2.0 + x))) * (rng.random(n) < 0.6)
    with pm.Model() as model:
        alpha, b = pm.Gamma("alpha", 2.0, 1.0), pm.Normal("b", 0.0, 1.0)
        psi = sigmoid(b) if i else 0.6
        KINDS[i]("y", psi=psi, mu=exp(2.0 + b + x), alpha=alpha, observed=y)

    def log_density(points):
        tau, b = points[:, :1], points[:, 1:]
        alpha = np.exp(tau)
        p = stats.nbinom(alpha, alpha / (alpha + np.exp(2.0 + b + x)))
        psi = expit(b) if i else 0.6
        if i:
            chance = psi * p.pmf(y) + (1.0 - psi) * (y == 0)
        else:
            chance = np.where(y == 0, 1.0, p.pmf(y) / p.sf(0))
        return np.log(chance).sum(axis=1) + (2.0 * tau - alpha - 0.5 * b**2).ravel()

    return model, quadrature(log_density, [-4.0, -4.0], [4.0, 4.0], size=201)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("i", BOTH)
def test_posterior_by_quadrature(i, n):
    model, reference = problem(i, n)
    step = step_of(model, transitions=10)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, reference)
