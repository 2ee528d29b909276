"""Softmax regression: reading, Boehning's bound, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from conftest import assert_matches, drive, quadrature, reference_from_draws, standardised
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from pymc_flymc import Bohning, FireflyMH, Tangent, UnsupportedModelError
from pymc_flymc.likelihoods import Softmax
from pymc_flymc.model import read_model

K = 4
vectors = st.lists(st.floats(-1e3, 1e3), min_size=K, max_size=K).map(np.array)
labels = st.integers(0, K - 1)


def simulated(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    eta = X @ rng.normal(size=(d, k))
    return X, np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)


def model_of(X, y, k, reference=False):
    with pm.Model() as model:
        W = pm.Normal("W", 0.0, 1.5, shape=(X.shape[1], k - reference))
        eta = pt.dot(X, W)
        if reference:
            eta = pt.concatenate([np.zeros((len(X), 1)), eta], axis=1)
        pm.Categorical("y", logit_p=eta, observed=y)
    return model


def step_of(model, **settings):
    with model:
        return FireflyMH(**settings)


# --- likelihood and bound -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def graphs():
    arguments = [pt.dvector(f"eta_{i}") for i in range(K)]
    y, constants = pt.dvector("y"), pt.dmatrix("constants")
    gap = Bohning().gap(Softmax(K), arguments, constants, pt.zeros((0,)))
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    return (
        pytensor.function([*arguments, y], Softmax(K).log_likelihood(arguments, y), mode=mode),
        pytensor.function([*arguments, constants], gap, mode=mode),
        pytensor.function([*arguments, constants], pytensor.grad(gap.sum(), arguments), mode=mode),
    )


def constants_of(touch, y=0, slack=0.0):
    return np.array([[y, slack, *touch]])


@given(eta=vectors, y=labels)
def test_log_likelihood(graphs, eta, y):
    value = graphs[0](*eta[:, None], np.array([float(y)]))[0]
    rounding = 8 * np.finfo(float).eps * (1.0 + np.abs(eta).max())
    assert value == pytest.approx(log_softmax(eta)[y], rel=1e-12, abs=rounding)


def log_bound(eta, touch, y):
    """Second-order expansion with the dominating curvature, from the definition."""
    p, u = np.exp(log_softmax(touch)), eta - touch
    curvature = 0.5 * (np.eye(K) - 1.0 / K)
    return log_softmax(touch)[y] + u[y] - p @ u - 0.5 * u @ curvature @ u


@settings(max_examples=500, deadline=None)
@given(eta=vectors, touch=vectors, y=labels, slack=st.floats(0.0, 5.0))
def test_bound_is_below_the_likelihood(graphs, eta, touch, y, slack):
    gap = graphs[1](*eta[:, None], constants_of(touch, y, slack))[0]
    size = 1.0 + np.abs(eta).max() + np.abs(touch).max() + np.sum((eta - touch) ** 2)
    rounding = 32 * np.finfo(float).eps * size
    expected = log_softmax(eta)[y] - log_bound(eta, touch, y) + slack
    assert gap == pytest.approx(expected, rel=1e-12, abs=rounding)
    assert gap >= -rounding


@given(touch=vectors)
def test_bound_touches_where_it_should(graphs, touch):
    rounding = 32 * np.finfo(float).eps * (1.0 + np.abs(touch).max())
    assert abs(graphs[1](*touch[:, None], constants_of(touch))[0]) <= rounding
    assert np.all(np.abs(graphs[2](*touch[:, None], constants_of(touch))) <= rounding)


@pytest.mark.parametrize("bound", [Bohning(), Bohning(tuned=False, slack=0.0)])
@pytest.mark.parametrize("reference", [False, True])
def test_collapsed_sum_is_the_sum_over_rows(bound, reference):
    X, y = simulated(300, 3, K)
    model = model_of(X, y, K, reference)
    step = step_of(model, bound=bound)
    log_prior = model.compile_logp(vars=model.free_RVs)
    target, rng = step.target, np.random.default_rng(2)
    rows, d = target.data.rows, len(target.geometry.centre)
    for scale in (0.0, 0.1, 1.0, 10.0):
        theta = target.geometry.centre + scale * target.geometry.factor @ rng.standard_normal(d)
        w = np.empty(3 * K)
        value = target.density(theta, target.statistics, w)
        W = theta.reshape(3, -1)
        if reference:
            W = np.column_stack([np.zeros(3), W])
        np.testing.assert_allclose(w.reshape(K, 3).T, W)
        eta, odds = X @ W, np.empty(len(y))
        target.log_factor(eta, rows.constants, np.empty(0), odds)
        gaps = np.logaddexp(0.0, odds)
        log_bounds = log_softmax(eta, axis=1)[np.arange(len(y)), y] - gaps
        prior = log_prior(step._layout.unravel(theta))
        assert value == pytest.approx(prior + log_bounds.sum(), rel=1e-10)


# --- reading ------------------------------------------------------------------------------------

X, Y = simulated(50, 3, 3)
SPELLINGS = {
    "logit_p": lambda W, b: dict(logit_p=pt.dot(X, W) + b),
    "softmax": lambda W, b: dict(p=pm.math.softmax(pt.dot(X, W) + b, axis=-1)),
    "special": lambda W, b: dict(p=pt.special.softmax(b + X @ W, axis=1)),
    "reference": lambda W, b: dict(
        logit_p=pt.concatenate([pt.zeros((50, 1)), pt.dot(X, W[:, 1:]) + b[1:]], axis=1)
    ),
    "columns": lambda W, b: dict(
        logit_p=pt.stack([X @ W[:, 0] + b[0], X @ W[:, 1], pt.zeros(50)], axis=1)
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    with pm.Model() as model:
        W = pm.Normal("W", 0.0, 1.0, shape=(3, 3))
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Categorical("y", **SPELLINGS[name](W, b), observed=Y)
    reading = read_model(model)
    assert reading.likelihood == Softmax(3)
    design, w = reading.predictor.design, reading.predictor.coefficients
    assert np.shares_memory(design.X, X)
    point = model.initial_point(random_seed=1)
    rng = np.random.default_rng(3)
    point = {key: rng.normal(size=value.shape) for key, value in point.items()}
    inputs = [model.rvs_to_values[rv] for rv in model.free_RVs]
    function = pytensor.function(inputs, w, on_unused_input="ignore")
    eta = design.predictor(function(*(point[v.name] for v in inputs)))
    expected = model.compile_logp(vars=model.observed_RVs)(point)
    assert log_softmax(eta, axis=1)[np.arange(50), Y].sum() == pytest.approx(expected)


def test_bad_models():
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0, shape=(3, 3))
        pm.Categorical("y", p=pm.math.sigmoid(X @ a), observed=Y)
    with pytest.raises(UnsupportedModelError, match="its p is not the softmax of a matrix"):
        step_of(model)
    with pytest.raises(ValueError, match="y has 1 values other than the classes 0 to 2"):
        step_of(model_of(X, np.where(np.arange(50) == 4, 3, Y), 3))
    with pytest.raises(ValueError, match="is not one on softmax likelihoods"):
        step_of(model_of(X, Y, 3), bound=Tangent())
    with pytest.raises(ValueError, match="slack must be finite"):
        Bohning(slack=np.nan)


# --- exactness ----------------------------------------------------------------------------------


def softmax_posterior(X, y):
    """Log density of K = 3 classes, the first a reference, one column each, for `quadrature`."""

    def log_density(points):
        eta = np.concatenate([np.zeros((len(points), 1)), points], axis=1)[:, None, :] * X
        log_p = log_softmax(eta, axis=2)[:, np.arange(len(y)), y]
        return log_p.sum(axis=1) - 0.5 * np.sum((points / 1.5) ** 2, axis=1)

    return log_density


@pytest.mark.parametrize("bound", ["auto", Bohning(slack=0.0), Bohning(tuned=False), None])
def test_posterior_by_quadrature(bound):
    rng = np.random.default_rng(4)
    x = 1.0 + rng.random((30, 1))
    y = rng.choice(3, size=30, p=[0.15, 0.25, 0.6])
    model = model_of(x, y, 3, reference=True)
    step = step_of(model, bound=bound, transitions=150)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(softmax_posterior(x, y), [-8.0, -8.0], [8.0, 8.0]))


@pytest.mark.slow
def test_letter_against_nuts(data):
    arrays = data("letter")
    keep = np.flatnonzero(arrays["y"] < 5)[:1000]
    X, y = standardised(arrays["X"][keep]), arrays["y"][keep]
    model = model_of(X, y, 5, reference=True)
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=4)
    ours = pm.sample(step=step_of(model), tune=1000, draws=4000, **options)
    theirs = pm.sample(tune=1000, draws=3000, nuts_sampler="pymc", **options)
    draws = [
        idata.posterior["W"].to_numpy().reshape(2, -1, X.shape[1] * 4) for idata in (ours, theirs)
    ]
    assert_matches(draws[0], reference_from_draws(draws[1]))
