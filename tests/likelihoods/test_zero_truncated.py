"""Counts without zeros: reading, log-likelihoods, limits on derivatives, the bound, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import FireflyMH, Taylor, UnsupportedModelError
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import ZeroTruncatedNegativeBinomial, ZeroTruncatedPoisson
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import exposed_rows
from tests.support.steps import drive, step_of

FAMILIES = [ZeroTruncatedPoisson(), ZeroTruncatedNegativeBinomial()]
NAMES = [family.name for family in FAMILIES]
exp = pm.math.exp


def simulated(n, d, seed=0, alpha=None):
    """Design, exposures, and counts from 1 on."""
    rng, X, exposure = exposed_rows(n, d, seed)
    mean = exposure * np.exp(X @ (0.4 * rng.normal(size=d)))
    y = np.zeros(n, int)
    while not y.all():
        rate = mean if alpha is None else rng.gamma(alpha, mean / alpha)
        y = np.where(y > 0, y, rng.poisson(rate))
    return X, exposure, y


X, E, Y = simulated(60, 3)
DISTRIBUTIONS = [
    lambda eta: pm.Poisson.dist(mu=E * exp(eta)),
    lambda eta: pm.NegativeBinomial.dist(mu=E * exp(eta), alpha=2.5),
]


def model_of(dist, y=Y, **limits):
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Truncated("y", dist(X @ b), **({"lower": 1} | limits), observed=y)
    return model


@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
def test_reading(i):
    """The rows' log-likelihood is PyMC's, but for a constant."""
    model = model_of(DISTRIBUTIONS[i])
    (part,) = read_model(model).regressions
    assert type(part.likelihood) is type(FAMILIES[i])
    differences = []
    for seed in range(3):
        b = 0.5 * np.random.default_rng(seed).normal(size=3)
        eta = [pt.constant(column) for column in part.design.predictor(b).T]
        columns = [pt.constant(column) for column in np.atleast_2d(part.y.T)]
        value = part.likelihood.log_likelihood(eta, columns if i else columns[0]).sum().eval()
        differences.append(value - model.compile_logp(vars=model["y"])({"b": b}))
    assert differences == pytest.approx([differences[0]] * 3, rel=1e-10)


def test_bad_models():
    with pytest.raises(UnsupportedModelError, match="its mu is not the exponential function"):
        read_model(model_of(lambda eta: pm.Poisson.dist(mu=pm.math.sqr(eta))))
    for limits in ({"lower": 2}, {"upper": 9}):
        with pytest.raises(UnsupportedModelError, match=r"Instead of pm.Truncated\(pm.Poisson\)"):
            read_model(model_of(DISTRIBUTIONS[0], **limits))
    for dist in DISTRIBUTIONS:
        for bad, what in ((0, "counts from 1 on"), (-1, "counts")):
            y = np.where(np.arange(60) == 3, bad, Y)
            message = f"y has 1 values that are not {what}, first in row 3: {bad}"
            with pytest.raises(ValueError, match=message):
                read_model(model_of(dist, y))


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood and its first four derivatives, of each family."""
    eta, y, alpha = pt.dvector("eta"), pt.dvector("y"), pt.dvector("alpha")
    functions = []
    for family, columns in zip(FAMILIES, (y, [y, alpha]), strict=True):
        out = [family.log_likelihood([eta], columns)]
        for _ in range(4):
            out.append(pytensor.grad(out[-1].sum(), eta))
        mode = pytensor.compile.Mode(linker="py", optimizer=None)
        inputs = [eta, y, alpha]
        functions.append(pytensor.function(inputs, out, mode=mode, on_unused_input="ignore"))
    return functions


@given(
    i=st.integers(0, 1),
    eta=st.floats(-1e3, 700.0),
    y=st.integers(1, 10**6),
    log_alpha=st.floats(-14.0, 14.0),
)
@example(i=1, eta=-724.0, y=1, log_alpha=-14.0)
def test_log_likelihood(graphs, i, eta, y, log_alpha):
    """Finite far out, with all derivatives that the package takes, and as the definition has it."""
    alpha = np.exp(log_alpha)
    value, *derivatives = (out[0] for out in graphs[i](*np.array([[eta], [y], [alpha]], float)))
    assert np.isfinite(value) and np.all(np.isfinite(derivatives))
    with np.errstate(all="ignore"):
        # (A subnormal number has lost digits: logarithms of small ones are those of products.)
        log_s = eta if i == 0 else log_alpha + eta
        if i == 1 and eta > -40.0:
            log_s = log_alpha + np.log(np.logaddexp(0.0, eta))
        zero = log_s if log_s < -37.0 else np.log(-np.expm1(-np.exp(log_s)))
        whole = -np.exp(eta) if i == 0 else -(y + alpha) * np.logaddexp(0.0, eta)
    scale = abs(y * eta) + abs(whole) + abs(zero)
    assert value == pytest.approx(y * eta + whole - zero, rel=1e-12, abs=1e-13 * scale)
    assert i == 1 or derivatives[1] <= 1e-13 * (1.0 + scale)  # log-concave


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("alpha", [1e-3, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("y", [1.0, 4.0])
@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
def test_limits_on_the_derivatives(graphs, i, y, alpha, order):
    """No less than what there is between two places, and not much more."""
    grid = np.linspace(-6.0, 8.0, 28_001)
    rows = np.column_stack([np.full(len(grid), v) for v in (y, alpha)])
    derivative = np.abs(graphs[i](grid, *rows.T)[order])
    starts = np.arange(0, len(grid) - 2000, 100)
    for width in (2, 2000):
        largest = np.array([derivative[a : a + width + 1].max() for a in starts])
        limit = FAMILIES[i].derivative_bound(
            order, grid[starts], grid[starts + width], rows[starts] if i else rows[starts, 0]
        )
        # Rounding of the graphs, whose terms cancel where means are small.
        assert np.all(largest <= limit + 1e-10 * np.exp(grid[starts + width]) + 1e-7)
    if i == 0:
        assert np.all(limit < 1.5 * largest + 1e-7)


@pytest.mark.parametrize("order", [3, 4])
def test_growth(order):
    """Both derivatives of a Poisson variable's rows increase, no faster than is said."""
    eta = np.linspace(-3.0, 4.0, 1001)
    exact = np.log(_cumulant(order, np.exp(eta)))
    family = ZeroTruncatedPoisson()
    assert 0.0 < np.diff(exact).min() and np.diff(exact).max() <= 1.00001 * family.growth * (
        eta[1] - eta[0]
    )
    limit = family.derivative_bound(order, eta, eta, np.ones(len(eta)))
    assert np.all(exact <= np.log(limit) + 1e-7)
    # All others are limited.
    other, row = ZeroTruncatedNegativeBinomial(), np.array([[3.0, 2.0]])
    assert other.derivative_bound(order, -np.inf, np.inf, row)[0] < 6.0


def _cumulant(order, t):
    """Third or fourth cumulant of a zero-truncated Poisson variable, from its moments."""
    m = t / -np.expm1(-t)
    raw = [m, m * (1 + t), m * (1 + 3 * t + t**2), m * (1 + 7 * t + 6 * t**2 + t**3)]
    third = raw[2] - 3 * m * raw[1] + 2 * m**3
    if order == 3:
        return third
    central = raw[3] - 4 * m * raw[2] + 6 * m**2 * raw[1] - 3 * m**4
    return central - 3 * (raw[1] - m**2) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
def test_bound(i, order):
    rng = np.random.default_rng(0)
    y = rng.integers(1, 30, 200)
    alphas = (0.01, 2.0, 1e3) if order == 2 else (2.0,)
    for alpha in alphas if i else (None,):
        values = y if alpha is None else np.column_stack([y, np.full(len(y), alpha)])
        check_bound(Taylor(order), FAMILIES[i], values)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "order"), [(25, 2), (25, 3), (400, 2)])
@pytest.mark.parametrize("i", [0, 1], ids=NAMES)
def test_posterior_by_quadrature(i, n, order):
    x, exposure, y = simulated(n, 2, 3, (None, 1.5)[i])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        mu = exposure * exp(x @ beta)
        whole = pm.Poisson.dist(mu=mu) if i == 0 else pm.NegativeBinomial.dist(mu=mu, alpha=1.5)
        pm.Truncated("y", whole, lower=1, observed=y)

    def log_density(points):
        mean = np.exp(points @ x.T) * exposure
        p = (stats.poisson(mean), stats.nbinom(1.5, 1.5 / (1.5 + mean)))[i]
        value = np.sum(p.logpmf(y) - np.log(p.sf(0)), axis=1)
        return value - 0.5 * np.sum(points**2, axis=1)

    step = step_of(model, FireflyMH, bound=Taylor(order), transitions=30)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, quadrature(log_density, [-6, -6], [6, 6]))
