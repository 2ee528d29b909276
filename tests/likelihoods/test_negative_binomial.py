"""Negative binomial regression: reading, the bound with a free alpha, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import FreeJaakkolaJordan, JaakkolaJordan, Taylor, UnsupportedModelError
from pymc_flymc.likelihoods import NegativeBinomialFree, NegativeBinomialLog
from pymc_flymc.likelihoods.free_alpha import NegativeBinomialSmooth
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import exposed_rows
from tests.support.steps import drive, step_of


def simulated(n, d, seed=0, alpha=1.5):
    rng, X, exposure = exposed_rows(n, d, seed)
    mu = exposure * np.exp(1.0 + X @ (0.4 * rng.normal(size=d)))
    return X, exposure, rng.negative_binomial(alpha, alpha / (alpha + mu))


def model_of(X, y, exposure=1.0, alpha=None):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=X.shape[1])
        alpha = alpha or pm.Gamma("alpha", 2.0, 1.0)
        pm.NegativeBinomial("y", mu=exposure * pm.math.exp(X @ beta), alpha=alpha, observed=y)
    return model


X, E, Y = simulated(60, 3)
ALPHAS = np.linspace(0.5, 3.0, 60)
MEANS = {
    "plain": (lambda b: {"mu": pm.math.exp(X @ b)}, 0.0),
    "exposure": (lambda b: {"mu": E * pm.math.exp(X @ b)}, np.log(E)),
    "offset": (lambda b: {"mu": pm.math.exp(pm.math.dot(X, b) + np.log(E))}, np.log(E)),
}


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("alpha", [np.array(2.5), ALPHAS, "free"], ids=["number", "by row", "free"])
def test_spelling(name, alpha):
    spelled, offset = MEANS[name]
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        a = pm.HalfNormal("a", 2.0) if isinstance(alpha, str) else alpha
        pm.NegativeBinomial("y", alpha=a, **spelled(b), observed=Y)
    reading = read_model(model)
    beta = np.array([0.1, -0.3, 0.7])
    point = {"b": beta, "a_log__": np.log(2.5)}
    values = [v for v in model.value_vars if v in reading.vars]
    w = reading.coefficients[0].eval({v: point[v.name] for v in values})
    log_alpha = np.log(2.5 if isinstance(alpha, str) else alpha)
    np.testing.assert_allclose(
        reading.regressions[0].design.predictor(w)[:, 0], X @ beta + offset - log_alpha
    )
    if isinstance(alpha, str):
        assert isinstance(reading.regressions[0].likelihood, NegativeBinomialFree)
        assert w[-1] == pytest.approx(np.log(2.5))
    else:
        assert isinstance(reading.regressions[0].likelihood, NegativeBinomialLog)
        np.testing.assert_array_equal(reading.regressions[0].y, np.column_stack([Y, Y + alpha]))


@pytest.mark.parametrize("free", [True, False])
def test_log_odds_instead_of_a_mean(free):
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        a = pm.HalfNormal("a", 2.0) if free else 2.5
        pm.NegativeBinomial("y", n=a, p=pm.math.sigmoid(-(X @ b)), observed=Y)
    reading = read_model(model)
    assert isinstance(
        reading.regressions[0].likelihood, NegativeBinomialFree if free else NegativeBinomialLog
    )
    beta = np.array([0.1, -0.3, 0.7])
    w = np.append(beta, 0.0) if free else beta
    np.testing.assert_allclose(reading.regressions[0].design.predictor(w)[:, 0], X @ beta)


def test_bad_models():
    with pytest.raises(ValueError, match="y has 1 values that are not counts, first in row 3: -1"):
        step_of(model_of(X, np.where(np.arange(60) == 3, -1, Y)))
    with pytest.raises(ValueError, match=r"alpha of the observed variable 'y' is -1.0; it must"):
        step_of(model_of(X, Y, alpha=-1.0))
    with pytest.raises(ValueError, match="is not one on negative-binomial-free likelihoods"):
        step_of(model_of(X, Y), bound=Taylor())
    for alpha, mu, message in (
        (lambda e: 1.0 + pm.math.exp(e), pm.math.exp, "its alpha is not the exponential function"),
        (lambda e: 2.0, pm.math.sqr, "its mu is not the exponential function"),
    ):
        with pm.Model() as model:
            eta = X @ pm.Normal("b", 0.0, 1.0, shape=3)
            pm.NegativeBinomial("y", mu=mu(eta), alpha=alpha(eta), observed=Y)
        with pytest.raises(UnsupportedModelError, match=message):
            step_of(model)


def test_shapes_that_differ():
    """Of rows, as the exponential function of a predictor, or of groups with their own priors."""
    group = np.arange(60) % 4
    for alpha in (
        lambda: pm.math.exp(X @ pm.Normal("c", 0.0, 1.0, shape=3)),
        lambda: pm.Gamma("a", 2.0, 1.0, shape=4)[group],
    ):
        with pm.Model() as model:
            b = pm.Normal("b", 0.0, 1.0, shape=3)
            pm.NegativeBinomial("y", mu=pm.math.exp(X @ b), alpha=alpha(), observed=Y)
        (regression,) = read_model(model).regressions
        assert isinstance(regression.likelihood, NegativeBinomialSmooth)
    with pytest.raises(ValueError, match="slack must be a finite number"):
        FreeJaakkolaJordan(slack=-1.0)


# --- the bound with a free alpha ----------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood and gap."""
    psi, log_alpha, y = (pt.dvector(name) for name in ("psi", "log_alpha", "y"))
    constants, mode = pt.dmatrix("constants"), pytensor.compile.Mode(linker="py", optimizer=None)
    value = NegativeBinomialFree().log_likelihood([psi, log_alpha], y)
    gap = FreeJaakkolaJordan().gap(
        NegativeBinomialFree(), [psi, log_alpha], constants, pt.zeros((0,))
    )
    return (
        pytensor.function([psi, log_alpha, y], value, mode=mode),
        pytensor.function([psi, log_alpha, constants], gap, mode=mode),
    )


@given(psi=st.floats(-30, 30), log_alpha=st.floats(-5, 6), y=st.integers(0, 1000))
def test_log_likelihood(graphs, psi, log_alpha, y):
    alpha = np.exp(log_alpha)
    value = graphs[0](np.array([psi]), np.array([log_alpha]), np.array([float(y)]))[0]
    zero = graphs[0](np.array([0.0]), np.array([log_alpha]), np.array([float(y)]))[0]
    logs = [y * v - (y + alpha) * np.logaddexp(0.0, v) for v in (psi, 0.0)]
    size = (y + alpha) * (2.0 + abs(psi)) + abs(zero)
    assert value - zero == pytest.approx(logs[0] - logs[1], abs=64 * np.finfo(float).eps * size)


@settings(max_examples=300)
@given(
    psi=st.floats(-1e3, 1e3),
    log_alpha=st.floats(-6.0, 12.0),
    xi=st.floats(0.0, 1e3),
    y=st.sampled_from([0.0, 1.0, 50.0, 1e5]),
)
def test_bound_is_below_the_likelihood(graphs, psi, log_alpha, xi, y):
    """At any alpha; and it touches where psi = xi, whatever alpha is."""
    constants = FreeJaakkolaJordan().constants(np.array([xi]), np.array([y]), np.zeros(1))
    gap = graphs[1](np.array([psi]), np.array([log_alpha]), constants)[0]
    size = 1.0 + abs(xi) + abs(psi) + psi**2 / (4.0 * max(xi, 2.0))
    trials = y + np.exp(log_alpha)
    assert gap >= -16 * np.finfo(float).eps * trials * size
    at = graphs[1](np.array([xi]), np.array([log_alpha]), constants)[0]
    assert abs(at) <= 16 * np.finfo(float).eps * trials * (1.0 + xi)


# --- exactness ----------------------------------------------------------------------------------


def posterior(y, alpha):
    """Log density of an intercept, or of (intercept, log alpha), for `quadrature`."""

    def log_density(points):
        mu = np.exp(points[:, :1])
        log_alpha = np.log(alpha) if alpha else points[:, 1]
        a = np.broadcast_to(np.exp(log_alpha), len(points))
        value = stats.nbinom.logpmf(y, a[:, None], a[:, None] / (a[:, None] + mu)).sum(axis=1)
        value += stats.norm.logpdf(points[:, 0], 0.0, 2.0)
        return value if alpha else value + stats.gamma.logpdf(a, 2.0) + log_alpha

    return log_density


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "bound"),
    [
        pytest.param(1.5, JaakkolaJordan(), id="jj"),
        pytest.param(1.5, Taylor(), id="taylor"),
        pytest.param(None, "auto", id="free"),
        pytest.param(None, None, id="free, no bound"),
        pytest.param(None, FreeJaakkolaJordan(slack=0.0), id="free, no slack"),
    ],
)
def test_posterior_by_quadrature(alpha, bound):
    y = simulated(30, 1, seed=3)[2]
    model = model_of(np.ones((30, 1)), y, alpha=alpha)
    step = step_of(model, bound=bound, transitions=30)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    box = [8.0] if alpha else [8.0, 6.0]
    assert_matches(draws, quadrature(posterior(y, alpha), [-v for v in box], box))
    assert np.all(drawn["n_bright"] <= 30)
