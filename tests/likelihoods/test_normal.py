"""Linear regression: the bound is the likelihood, and no row is ever bright."""

import numpy as np
import pymc as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import FireflyMH, FireflySlice, Tangent, UnsupportedModelError
from pymc_flymc.bounds import row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.likelihoods import Normal
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.readings import check_density
from tests.support.steps import drive

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(50), RNG.normal(size=50)])
Y = X @ [0.5, 1.0] + 0.7 * RNG.normal(size=50)
UNITS = np.linspace(0.5, 2.0, 50)


def model_of(y, X, distribution=pm.Normal):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=X.shape[1])
        distribution("y", mu=X @ beta, sigma=pm.HalfNormal("sigma", 2.0), observed=y)
    return model


@pytest.fixture(scope="module")
def log_odds():
    """Compiled log odds of a row, from (y, slack, slope), eta and log sigma."""
    return compile_log_factor(row_factor(Normal(), Tangent()))


@given(
    y=st.floats(-1e3, 1e3),
    eta=st.floats(-1e3, 1e3),
    log_sigma=st.floats(-300.0, 300.0),
)
def test_no_row_can_be_bright(log_odds, y, eta, log_sigma):
    """To the last digit, at any residual and scale: in native code, too."""
    out = np.empty(1)
    log_odds(np.array([[eta]]), np.array([[y, 0.0, 0.5]]), np.array([log_sigma]), out)
    # Squares of residuals may overflow; what is not a number is not bright either.
    assert out[0] == -np.inf or np.isnan(out[0])


def posterior(y):
    """Log density of (location, log sigma), N(0, 2) and HalfNormal(2) priors, for `quadrature`."""

    def log_posterior(points):
        mu, log_sigma = points.T
        sigma = np.exp(log_sigma)
        value = stats.norm.logpdf(y, mu[:, None], sigma[:, None]).sum(axis=1)
        return value + stats.norm.logpdf(mu, 0.0, 2.0) - 0.5 * (sigma / 2.0) ** 2 + log_sigma

    return log_posterior


@pytest.mark.parametrize(
    ("kind", "settings", "logarithms"),
    [
        (FireflyMH, {"kernel": "metropolis"}, False),
        pytest.param(FireflySlice, {}, True, marks=pytest.mark.slow),
    ],
)
def test_posterior_by_quadrature(kind, settings, logarithms):
    y = np.random.default_rng(3).normal(0.5, 1.0, size=25)
    observed, distribution = (np.exp(y), pm.LogNormal) if logarithms else (y, pm.Normal)
    with model_of(observed, np.ones((25, 1)), distribution) as model:
        step = kind(transitions=10, **settings)
    assert isinstance(step.bounds[0], Tangent)
    assert step.target.parts[0].likelihood == Normal(of_logarithms=logarithms)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(posterior(y), [-3.0, -3.0], [4.0, 3.0]))
    assert np.all(drawn["n_bright"] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.7, 0.7 * UNITS], ids=["one", "of rows"])
def test_known_sigma_is_conjugate(sigma):
    """N(0, 4) coefficients: the posterior is normal, and known."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Normal("y", mu=X @ beta, sigma=sigma, observed=Y)
        step = FireflyMH()
    rows, y = X / np.reshape(sigma, (-1, 1)), Y / sigma
    precision = rows.T @ rows + np.eye(2) / 4.0
    mean = np.linalg.solve(precision, rows.T @ y)
    exact = np.random.default_rng(5).multivariate_normal(
        mean, np.linalg.inv(precision), size=(4, 50_000)
    )
    draws, _ = drive(step, model.initial_point(), tune=300, draws=3000, chains=2)
    assert_matches(draws, reference_from_draws(exact))


@pytest.mark.slow
def test_rows_cost_nothing():
    """A sweep proposes about one row of all, however many there are."""
    rng = np.random.default_rng(6)
    rows = np.column_stack([np.ones(50_000), rng.normal(size=(50_000, 3))])
    y = rows @ [1.0, 0.5, -0.5, 0.0] + rng.normal(size=50_000)
    with model_of(y, rows) as model:
        step = FireflyMH()
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=500)
    reads = drawn["likelihood_queries"] / drawn["transitions"]
    assert reads.mean() < 5.0
    sd = draws[0].std(axis=0)
    least_squares = np.linalg.lstsq(rows, y)[0]
    assert np.all(np.abs(draws[0].mean(axis=0)[:4] - least_squares) < 0.5 * sd[:4])


def test_what_is_refused():
    with model_of(np.array([1.0, 0.0, 2.0]), np.ones((3, 1)), pm.LogNormal):
        with pytest.raises(ValueError, match=r"y has 1 values that are not positive.*row 1: 0\.0"):
            FireflyMH()
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Normal("y", mu=X @ beta, sigma=1.0 + pm.math.exp(X @ beta), observed=Y)
        with pytest.raises(UnsupportedModelError, match=r"for each row, .*times data"):
            FireflyMH()
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Normal("y", mu=X @ beta, sigma=np.append(0.0, UNITS[1:]), observed=Y)
        with pytest.raises(ValueError, match=r"sigma of .* 'y' is 0\.0 in row 0"):
            FireflyMH()


#: Scales that are a number times data.
WRITTEN = {
    "free": lambda mu: pm.Normal("y", mu, sigma=pm.HalfNormal("s") * UNITS, observed=Y),
    "of weights": lambda mu: pm.Normal(
        "y", mu, sigma=pm.HalfNormal("s") / pm.math.sqrt(pm.Data("w", UNITS)), observed=Y
    ),
    "known": lambda mu: pm.Normal("y", mu, sigma=UNITS, observed=Y),
    "logarithms": lambda mu: pm.LogNormal("y", mu, sigma=0.5 * UNITS, observed=np.exp(Y)),
    "intercept": lambda mu: pm.Normal("y", pm.Normal("a"), sigma=UNITS, observed=Y),
    "t": lambda mu: pm.StudentT("y", 4.0, mu, sigma=pm.HalfNormal("s") * UNITS, observed=Y),
    "cauchy": lambda mu: pm.Cauchy("y", mu, beta=UNITS, observed=Y),
    "laplace": lambda mu: pm.Laplace("y", mu, b=UNITS, observed=Y),
    "quantile": lambda mu: pm.AsymmetricLaplace("y", q=0.9, mu=mu, b=3.0 * UNITS, observed=Y),
    "logistic": lambda mu: pm.Logistic("y", mu, s=UNITS, observed=Y),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_scales_that_are_known_up_to_a_number(name):
    with pm.Model() as model:
        WRITTEN[name](X @ pm.Normal("beta", 0.0, 2.0, shape=2))
    reading = read_model(model)
    rows = reading.regressions[0].design.X
    assert len(np.unique(rows[:, 0])) == 50  # each in units of its own
    check_density(model, reading)
