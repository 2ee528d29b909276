"""Binomial regression: reading trials with outcomes, both bounds, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_flymc import ImplicitResampling, JaakkolaJordan, Taylor, UnsupportedModelError
from pymc_flymc.likelihoods import BernoulliLogit, BinomialLogit
from pymc_flymc.likelihoods.likelihood import LOGISTIC, form_of
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import log_sigmoid
from tests.support.readings import compare
from tests.support.steps import drive, step_of


def simulated(n, d, seed=0, most=20):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    trials = rng.integers(1, most + 1, n)
    p = 1.0 / (1.0 + np.exp(-X @ (rng.normal(size=d) / np.sqrt(d))))
    return X, trials, rng.binomial(trials, p)


def model_of(X, y, trials, prior_sd=1.0):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, prior_sd, shape=X.shape[1])
        pm.Binomial("y", n=trials, logit_p=X @ beta, observed=y)
    return model


X, M, Y = simulated(60, 3)
SPELLINGS = {
    "logit_p": lambda b: {"n": M, "logit_p": X @ b},
    "sigmoid": lambda b: {"n": M, "p": pm.math.sigmoid(X @ b)},
    "invlogit of a sum": lambda b: {"n": M, "p": pm.math.invlogit(pm.math.dot(X, b))},
    "by hand": lambda b: {"n": M, "p": 1.0 / (1.0 + pm.math.exp(-(X @ b)))},
    "data": lambda b: {"n": pm.Data("trials", M), "logit_p": X @ b},
    "column": lambda b: {"n": pm.Data("trials", M[:, None])[:, 0], "logit_p": X @ b},
    "constant": lambda b: {"n": 25, "logit_p": X @ b},
    "list of one": lambda b: {"n": [25], "logit_p": X @ b},
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Binomial("y", **SPELLINGS[name](b), observed=Y)
    reading = read_model(model)
    assert isinstance(reading.regressions[0].likelihood, BinomialLogit)
    trials = np.full(60, 25) if name in ("constant", "list of one") else M
    np.testing.assert_array_equal(reading.regressions[0].y, np.column_stack([Y, trials]))
    beta = np.array([0.1, -0.3, 0.7])
    np.testing.assert_allclose(reading.regressions[0].design.predictor(beta)[:, 0], X @ beta)


def test_bad_models():
    with pytest.raises(ValueError, match="y has 1 values that are not counts between 0 and n, "):
        step_of(model_of(X, np.where(np.arange(60) == 3, -1, Y), M))
    with pytest.raises(ValueError, match="first in row 5: 21 with n = 20"):
        step_of(model_of(X, np.where(np.arange(60) == 5, 21, Y), 20))
    for bad in (0.5, np.nan):
        observed = np.column_stack([np.where(np.arange(60) == 2, bad, Y), M])
        with pytest.raises(ValueError, match=rf"first in row 2: {bad} with n"):
            BinomialLogit().read_observed(observed, "y")
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Binomial("y", n=M, p=0.5 + 0.1 * pm.math.sigmoid(X @ b), observed=Y)
    with pytest.raises(UnsupportedModelError, match="its p is not the logistic function"):
        step_of(model)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        n = 20 + pm.math.exp(b[0]).astype("int64")
        pm.Binomial("y", n=n, logit_p=X @ b, observed=Y)
    with pytest.raises(UnsupportedModelError, match="n of the observed variable 'y' depends on"):
        step_of(model)


# --- the bound ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gap():
    eta, constants = pt.dvector("eta"), pt.dmatrix("constants")
    graph = JaakkolaJordan().gap(BinomialLogit(), [eta], constants, pt.zeros((0,)))
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    return pytensor.function([eta, constants], graph, mode=mode)


@settings(max_examples=300)
@given(
    eta=st.floats(-1e3, 1e3),
    xi=st.floats(0.0, 1e3),
    trials=st.sampled_from([0.0, 1.0, 7.0, 1e6]),
    share=st.floats(0.0, 1.0),
)
def test_bound_is_that_of_a_bernoulli_variable_many_times(gap, eta, xi, trials, share):
    bound = JaakkolaJordan()
    y = np.array([[np.round(share * trials), trials]])
    a, b, c = bound.coefficients(np.array([xi]), y, np.zeros(1))
    constants = bound.constants(np.array([xi]), y, np.zeros(1))
    value = gap(np.array([eta]), constants)[0]
    log_likelihood = y[0, 0] * eta - trials * np.logaddexp(0.0, eta)
    size = 1.0 + abs(xi) + abs(eta) + eta**2 / (4.0 * max(xi, 2.0))
    rounding = 16 * np.finfo(float).eps * trials * size
    assert value >= -rounding
    assert value == pytest.approx(
        log_likelihood - (c + b * eta - a * eta**2)[0], rel=1e-12, abs=rounding
    )
    assert abs(gap(np.array([xi]), constants)[0]) <= 16 * np.finfo(float).eps * trials * (1 + xi)


@given(order=st.sampled_from([3, 4]), low=st.floats(-20, 20), trials=st.integers(0, 50))
def test_derivative_bound(order, low, trials):
    y = np.array([[0, trials], [trials, trials]])
    single = BernoulliLogit().derivative_bound(order, low, low + 1.0, y[:, 0])
    several = BinomialLogit().derivative_bound(order, low, low + 1.0, y)
    np.testing.assert_allclose(several, trials * single * np.ones(2))


# --- exactness ----------------------------------------------------------------------------------


def binomial_posterior(X, y, trials, prior_sd):
    def log_density(points):
        eta = points @ X.T
        value = y * log_sigmoid(eta) + (trials - y) * log_sigmoid(-eta)
        return value.sum(axis=1) - 0.5 * np.sum((points / prior_sd) ** 2, axis=1)

    return log_density


@pytest.mark.slow
@pytest.mark.parametrize(
    "bound",
    [
        pytest.param(JaakkolaJordan(), id="jj"),
        pytest.param(Taylor(2), id="taylor2"),
        pytest.param(Taylor(3), id="taylor3"),
        pytest.param(None, id="none"),
    ],
)
def test_posterior_by_quadrature(bound):
    x, trials, y = simulated(30, 2, seed=3, most=5)
    model = model_of(x, y, trials)
    step = step_of(model, bound=bound, transitions=30)
    draws, drawn = drive(step, model.initial_point(), tune=300, draws=2000, chains=2)
    assert_matches(draws, quadrature(binomial_posterior(x, y, trials, 1.0), [-6, -6], [6, 6]))
    assert np.all(drawn["n_bright"] <= 30)


def test_choice_of_the_bound():
    """Concentrated: joint moves. Conditional ones, and with brightness=: the tightest bound."""
    x, trials, y = simulated(20_000, 3)
    assert isinstance(step_of(model_of(x, y, trials)).bounds[0], Taylor)
    x, trials, y = simulated(400, 100, most=2)
    step = step_of(model_of(x, y, trials, 3.0), kernel="metropolis")
    assert isinstance(step.bounds[0], JaakkolaJordan)
    step = step_of(model_of(X, Y, M), brightness=ImplicitResampling())
    assert isinstance(step.bounds[0], JaakkolaJordan)


@pytest.mark.parametrize(
    "p", [lambda e: pm.math.sigmoid(e), lambda e: 1.0 / (1.0 + pm.math.exp(-e))]
)
def test_geometric_outcomes(p, any_size):
    """They are one success in so many trials."""
    y = np.random.default_rng(0).geometric(0.3, 20)
    rows = np.column_stack([np.ones(20), np.linspace(-1.0, 1.0, 20)])
    with pm.Model() as model:
        pm.Geometric("y", p=p(rows @ pm.Normal("b", shape=2)), observed=y)
    reading = read_model(model)
    (regression,) = reading.regressions
    assert form_of(regression.likelihood) == LOGISTIC
    np.testing.assert_array_equal(regression.y, np.column_stack([np.ones(20), y]))
    compare(model, reading)
    with pm.Model() as model:
        pm.Geometric("y", p=p(pm.Normal("b")), observed=y - 1)
    with pytest.raises(ValueError, match="counts from 1 on"):
        read_model(model)
