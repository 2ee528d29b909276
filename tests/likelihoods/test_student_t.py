"""Student-t regression: reading, the tangent bound, exactness with free sigma and nu."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import JaakkolaJordan, Tangent, Taylor
from pymc_flymc.likelihoods import StudentT
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import standardised
from tests.support.nuts import assert_match_nuts
from tests.support.steps import drive, step_of

logs = st.floats(-6.0, 6.0)
residuals = st.floats(-1e3, 1e3)


def simulated(n, d, seed=0, nu=4.0, sigma=0.7):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    return X, X @ rng.normal(size=d) + sigma * rng.standard_t(nu, size=n)


def log_density(y, eta, nu, sigma):
    return stats.t.logpdf(y, nu, eta, sigma)


def compile_py(inputs, output):
    return pytensor.function(
        inputs, output, mode=pytensor.compile.Mode(linker="py", optimizer=None)
    )


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood, gap and its gradient as functions of arguments, y and constants."""
    arguments = [pt.dvector(name) for name in ("eta", "log_nu", "log_sigma")]
    y, constants = pt.dvector("y"), pt.dmatrix("constants")
    likelihood = StudentT()
    gap = Tangent().gap(likelihood, arguments, constants, pt.zeros((0,)))
    return (
        compile_py([*arguments, y], likelihood.log_likelihood(arguments, y)),
        compile_py([*arguments, constants], gap),
        compile_py([*arguments, constants], pytensor.grad(gap.sum(), arguments)),
    )


def constants_of(y, residual, log_nu, log_sigma, slack=0.0):
    """Constants of a row whose bound touches at a given residual and nuisance parameters."""
    squared = np.array([(residual * np.exp(-log_sigma)) ** 2])
    tangent = StudentT().tangent(squared, [log_nu, log_sigma])
    return Tangent().constants(tangent, np.array([y]), np.array([slack]))


@given(y=residuals, eta=residuals, log_nu=logs, log_sigma=logs)
def test_log_likelihood(graphs, y, eta, log_nu, log_sigma):
    value = graphs[0](*(np.array([v]) for v in (eta, log_nu, log_sigma, y)))[0]
    expected = log_density(y, eta, np.exp(log_nu), np.exp(log_sigma))
    # The gamma functions of up to exp(6) are subtracted.
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-10)


@settings(max_examples=500)
@given(
    residual=residuals, at=residuals, nuisances=st.tuples(logs, logs), anchor=st.tuples(logs, logs)
)
def test_bound_is_below_the_likelihood(graphs, residual, at, nuisances, anchor):
    """For a residual, nu and sigma other than those at which it touches."""
    constants = constants_of(0.0, at, *anchor)
    gap = graphs[1](*(np.array([v]) for v in (residual, *nuisances)), constants)[0]
    slope, squared = constants[0, 2], (residual * np.exp(-nuisances[1])) ** 2
    nu = np.exp(nuisances[0])
    terms = slope * squared, nu * slope, nu + 1.0, (nu + 1.0) * np.log1p(squared / nu)
    assert gap >= -16 * np.finfo(float).eps * (sum(terms) + nu * abs(np.log(slope)))


@given(at=residuals, log_nu=logs, log_sigma=logs)
def test_bound_touches_at_the_anchor(graphs, at, log_nu, log_sigma):
    constants = constants_of(0.0, at, log_nu, log_sigma)
    arguments = [np.array([v]) for v in (-at, log_nu, log_sigma)]
    size = (np.exp(log_nu) + 1.0) * (1.0 + np.log1p((at * np.exp(-log_sigma)) ** 2))
    assert abs(graphs[1](*arguments, constants)[0]) <= 64 * np.finfo(float).eps * size
    gradient = np.array(graphs[2](*arguments, constants))[:, 0]
    scale = np.array([np.exp(-log_sigma), 1.0, 1.0])  # the first is one in eta, not in residuals
    assert np.all(np.abs(gradient) <= 256 * np.finfo(float).eps * size * scale * 10)


def model_of(X, y, **fixed):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=X.shape[1])
        nu = fixed.get("nu") or pm.Gamma("nu", 2.0, 0.1)
        sigma = fixed.get("sigma") or pm.HalfNormal("sigma", 2.0)
        pm.StudentT("y", nu=nu, mu=X @ beta, sigma=sigma, observed=y)
    return model


@pytest.fixture(scope="module")
def free():
    X, y = simulated(400, 3)
    model = model_of(X, y)
    return X, y, model, step_of(model, kernel="metropolis")


def test_collapsed_sum_is_the_sum_over_rows(free):
    X, y, model, step = free
    target, rng = step.target, np.random.default_rng(2)
    log_prior = model.compile_logp(vars=model.free_RVs)
    rows = target.data.rows
    for scale in (0.0, 0.1, 1.0, 5.0):
        theta = target.geometry.centre + scale * target.geometry.factor @ rng.standard_normal(5)
        w = np.empty(5)
        value = target.density(theta, target.statistics, w)
        np.testing.assert_allclose(w[:3], theta[:3])
        nu, sigma = np.exp(w[3:])
        odds = np.empty(len(y))
        target.parts[0].log_factor((X @ w[:3])[:, None], rows.constants, w[3:], odds)
        gaps = np.logaddexp(0.0, odds)
        log_bound = log_density(y, X @ w[:3], nu, sigma) - gaps
        prior = log_prior(step._layout.unravel(theta))
        assert value == pytest.approx(prior + log_bound.sum(), rel=1e-10)


@pytest.mark.parametrize(
    ("fixed", "size"),
    [({}, 2), ({"nu": 3.0}, 1), ({"sigma": 0.5}, 1), ({"nu": 3.0, "sigma": 0.5}, 0)],
)
def test_reading(fixed, size):
    X, y = simulated(60, 2)
    step = step_of(model_of(X, y, **fixed), kernel="metropolis")
    assert isinstance(step.bounds[0], Tangent)
    assert step.target.geometry.centre.shape == (2 + size,)
    assert step.target.data.rows.X is not None and step.target.graph.n_coefficients == 4


def test_cauchy_is_a_student_t():
    X, y = simulated(100, 2, nu=1.0)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Cauchy("y", alpha=X @ beta, beta=0.5, observed=y)
    step = step_of(model, kernel="metropolis")
    w = np.empty(4)
    step.target.density(step.target.geometry.centre, step.target.statistics, w)
    np.testing.assert_allclose(w[2:], [0.0, np.log(0.5)])


def test_precision_instead_of_scale():
    X, y = simulated(100, 2)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.StudentT("y", nu=3, mu=pm.math.dot(X, beta), lam=4.0, observed=y)
    w = np.empty(4)
    target = step_of(model, kernel="metropolis").target
    target.density(target.geometry.centre, target.statistics, w)
    np.testing.assert_allclose(w[2:], [np.log(3.0), np.log(0.5)])


def test_anchor_is_the_mode(free):
    *_, model, step = free
    point = step._layout.unravel(step.target.geometry.centre)
    gradient = model.compile_dlogp()(point)
    # In units of posterior standard deviations: the search ends within a few hundredths.
    assert np.linalg.norm(step.target.geometry.factor.T @ gradient) < 0.05


def test_settings_and_data_are_checked():
    X, y = simulated(50, 2)
    with pytest.raises(ValueError, match="slack must be a finite number >= 0"):
        Tangent(slack=-1.0)
    for bound in (Taylor(), JaakkolaJordan()):
        with pytest.raises(ValueError, match="is not one on student-t likelihoods"):
            step_of(model_of(X, y), bound=bound)
    with pytest.raises(ValueError, match="y has 1 values that are not finite, first in row 7"):
        bad = pm.Data("bad", np.where(np.arange(50) == 7, np.inf, y), model=pm.Model())
        step_of(model_of(X, bad.get_value()))


# --- exactness ----------------------------------------------------------------------------------


def t_posterior(y, nu):
    """Log density of (location, log sigma), N(0, 2) and HalfNormal(2) priors, for `quadrature`."""

    def log_posterior(points):
        mu, log_sigma = points.T
        sigma = np.exp(log_sigma)
        value = log_density(y, mu[:, None], nu, sigma[:, None]).sum(axis=1)
        return value + stats.norm.logpdf(mu, 0.0, 2.0) - 0.5 * (sigma / 2.0) ** 2 + log_sigma

    return log_posterior


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": "metropolis"},
        {"bound": Tangent(slack=0.0)},
        {"bound": None},
    ],
)
@pytest.mark.parametrize("nu", [1.5, 6.0])
def test_posterior_by_quadrature(nu, settings):
    y = simulated(25, 1, seed=3, nu=nu)[1]
    model = model_of(np.ones((25, 1)), y, nu=nu)
    step = step_of(model, transitions=40, **settings)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    reference = quadrature(t_posterior(y, nu), [-10.0, -6.0], [10.0, 4.0])
    assert_matches(draws, reference)
    assert np.all(drawn["n_bright"] <= 25)


def test_rows_are_bright_with_the_right_frequency():
    X, y = simulated(40, 1, seed=5)
    model = model_of(X, y, nu=4.0, sigma=0.7)
    step = step_of(model, kernel="metropolis", transitions=1)
    step.setup_chain(np.random.default_rng(0), 0, 1)
    chain, rng = step.chain, np.random.default_rng(1)
    chain.start(rng, np.array([1.5]))
    rows, draws = step.target.data.rows, 20_000
    theta = chain.state.theta.copy()
    odds, counts = np.empty(40), np.zeros(40)
    w = np.array([theta[0], np.log(4.0), np.log(0.7)])
    step.target.parts[0].log_factor((X @ theta)[:, None], rows.constants, w[1:], odds)
    for _ in range(draws):
        chain.start(rng, np.array([1.5]))
        counts[chain.bright.index[: chain.n_bright]] += 1
    p = 1.0 / (1.0 + np.exp(-odds))
    score = (counts - draws * p) / np.sqrt(draws * p * (1 - p))
    assert np.all(np.abs(score) < stats.norm.isf(1e-5 / 40))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4000])
def test_california_housing_against_nuts(data, rows):
    """Skewed and heavy-tailed data; sigma and nu free."""
    arrays = data("california_housing")
    X, y = standardised(arrays["X"][:rows]), arrays["y"][:rows]
    model = model_of(X, (y - y.mean()) / y.std())
    assert_match_nuts(
        model, step_of(model), tune=1500, draws=5000, nuts=dict(tune=1500, draws=5000)
    )
