"""Proportions, beta variables: reading, limits on derivatives, the bound, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import polygamma

from pymc_flymc import Taylor, UnsupportedModelError
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import Beta
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import load_data, standardised
from tests.support.limits import limit_beyond
from tests.support.nuts import assert_match_nuts
from tests.support.readings import check_density
from tests.support.steps import drive, step_of

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
Y = RNG.beta(2.0, 3.0, N)
sigmoid, exp = pm.math.sigmoid, pm.math.exp


def coefficients(name="b"):
    return X @ pm.Normal(name, 0.0, 1.0, shape=3)


def free():
    return pm.HalfNormal("nu", 10.0)


#: Shapes that a user may write.
WRITTEN = {
    "free": lambda e: dict(mu=sigmoid(e), nu=free()),
    "given": lambda e: dict(mu=sigmoid(e), nu=5.0),
    "given for rows": lambda e: dict(mu=sigmoid(e), nu=np.linspace(1.0, 9.0, N)),
    "regressed": lambda e: dict(mu=sigmoid(e), nu=exp(coefficients("g"))),
    "shapes": lambda e: dict(alpha=(nu := free()) * sigmoid(e), beta=nu * sigmoid(-e)),
    "one minus": lambda e: dict(alpha=(nu := free()) * (1 - sigmoid(e)), beta=sigmoid(e) * nu),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    with pm.Model() as model:
        pm.Beta("y", **WRITTEN[name](coefficients()), observed=Y)
    reading = read_model(model)
    assert isinstance(reading.regressions[0].likelihood, Beta)
    check_density(model, reading)


def test_bad_models():
    cases = [
        lambda e: dict(mu=pm.math.invprobit(e), nu=free()),
        lambda e: dict(mu=sigmoid(e), sigma=0.1),
        lambda e: dict(alpha=exp(e), beta=2.0),
        lambda e: dict(alpha=(nu := free()) * sigmoid(e), beta=nu * sigmoid(e)),
        lambda e: dict(alpha=free() * sigmoid(e), beta=pm.HalfNormal("other") * sigmoid(-e)),
    ]
    for write in cases:
        with pm.Model() as model:
            pm.Beta("y", **write(coefficients()), observed=Y)
        with pytest.raises(UnsupportedModelError, match="its mu is not the logistic function"):
            read_model(model)
    with pm.Model() as model:
        pm.Beta("y", mu=sigmoid(coefficients()), nu=free(), observed=np.append(Y[1:], 1.0))
    with pytest.raises(ValueError, match=r"not between 0 and 1, first in row 59: 1\.0"):
        read_model(model)


def test_limits_of_polygamma_functions():
    """Those from which limits on derivatives follow."""
    x = np.logspace(-6.0, 3.0, 2001)
    first, second = polygamma(1, x), polygamma(2, x)
    for value, low, high in (
        (x * (x * first - 1.0), 0.0, 1.0),
        (x * (x * first + x**2 * second), -1.0, 0.0),
        (x**2 * first - x, 0.5, 1.0),
        (3.0 * x**2 * first + x**3 * second - 2.0 * x, 0.5, 1.0),
    ):
        assert np.all((value > low - 1e-9) & (value < high + 1e-9))


@pytest.fixture(scope="module")
def third():
    """Third derivative of the log-likelihood along a direction."""
    eta, tau, u, v, y = (pt.dvector(name) for name in ("eta", "tau", "u", "v", "y"))
    t = pt.zeros_like(eta)
    out = Beta().log_likelihood([eta + t * u, tau + t * v], y)
    for _ in range(3):
        out = pytensor.grad(out.sum(), t)
    mode = pytensor.compile.Mode(linker="py", optimizer="merge")
    return pytensor.function([eta, tau, u, v, y], out, mode=mode)


def test_limits_on_the_derivatives(third):
    """No less than what there is within a half-width, nor than what there is far away."""
    rng, n, family = np.random.default_rng(0), 20_000, Beta()
    eta = np.stack([rng.normal(0.0, 2.0, n), rng.normal(2.0, 2.0, n)])
    spread = np.exp(rng.normal(size=(2, n)))
    half_width = 10.0 ** rng.uniform(-4.0, 0.7, n) * spread
    y = np.clip(rng.beta(0.5, 0.5, n), 1e-9, 1.0 - 1e-9)
    there = eta + half_width * rng.uniform(-1.0, 1.0, (2, n))
    direction = spread * rng.choice([-1.0, 0.3, 1.0], (2, n))
    found = np.abs(third(*there, *direction, y))
    # Terms that cancel are of the size of phi.
    rounding = 1e-10 * np.exp(np.abs(there[1])) * spread.max(axis=0) ** 3
    assert np.all(found <= family.third_bound(eta, half_width, spread, y) * (1 + 1e-9) + rounding)
    far = limit_beyond(family, eta, there - eta, spread, y)
    assert np.all(found <= far * (1 + 1e-9) + rounding)


@pytest.mark.slow
def test_bound():
    check_bound(Taylor(), Beta(), RNG.beta(2.0, 3.0, 200))


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 400])
def test_posterior_by_quadrature(n):
    """An intercept, and the logarithm of nu."""
    rng = np.random.default_rng(n)
    x = np.linspace(-1.0, 1.0, n)
    mean = 1.0 / (1.0 + np.exp(-0.5 - x))
    y = rng.beta(8.0 * mean, 8.0 * (1.0 - mean))
    with pm.Model() as model:
        nu, b = pm.Exponential("nu", 0.1), pm.Normal("b", 0.0, 1.0)
        pm.Beta("y", mu=sigmoid(b + x), nu=nu, observed=y)

    def log_density(points):
        log_nu, b = points[:, :1], points[:, 1:]
        mean, nu = 1.0 / (1.0 + np.exp(-b - x)), np.exp(log_nu)
        rows = stats.beta(nu * mean, nu * (1.0 - mean)).logpdf(y).sum(axis=1)
        return rows + (log_nu - 0.1 * nu - 0.5 * b**2).ravel()

    step = step_of(model, transitions=30)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, quadrature(log_density, [-2.0, -4.0], [6.0, 4.0]))


@pytest.mark.slow
def test_real_data_against_nuts():
    """Of the rooms of Californian districts the bedrooms, nu with a regression of its own."""
    houses = load_data("california_housing")
    names = list(houses["feature_names"])
    bedrooms, rooms = (names.index(name) for name in ("total_bedrooms", "total_rooms"))
    rows = houses["X"][houses["X"][:, bedrooms] < houses["X"][:, rooms]]
    rows = rows[np.random.default_rng(0).choice(len(rows), 1000, replace=False)]
    columns = [names.index(name) for name in ("median_income", "housing_median_age", "latitude")]
    x = standardised(rows[:, columns])
    with pm.Model() as model:
        b, g = (pm.Normal(name, 0.0, 2.0, shape=x.shape[1]) for name in "bg")
        pm.Beta("y", mu=sigmoid(x @ b), nu=exp(x @ g), observed=rows[:, bedrooms] / rows[:, rooms])
    assert_match_nuts(model, step_of(model))
