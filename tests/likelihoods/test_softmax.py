"""Softmax regression: reading, derivatives, choice of the bound, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from pymc_flymc import (
    Bohning,
    FireflyHMC,
    ImplicitResampling,
    JebaraChoromanska,
    Tangent,
    Taylor,
    UnsupportedModelError,
)
from pymc_flymc.likelihoods import Softmax
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.derivatives import RowDerivatives
from tests.support.comparison import assert_matches, quadrature, reference_from_draws
from tests.support.data import softmax_rows, standardised
from tests.support.models import softmax_model
from tests.support.steps import drive, step_of

# --- likelihood ---------------------------------------------------------------------------------

K = 4


class FromGraph(Softmax):
    """Derivatives as those of other families, from the graph of the log-likelihood."""

    derivatives = None


@pytest.fixture(scope="module")
def derivatives():
    return tuple(RowDerivatives(of(n_predictors=K - 1)) for of in (Softmax, FromGraph))


@given(
    eta=st.lists(st.floats(-1e3, 1e3), min_size=K - 1, max_size=K - 1).map(np.array),
    y=st.integers(0, K - 1),
)
def test_log_likelihood_and_its_derivatives(derivatives, eta, y):
    ours, from_graph = (of(eta[:, None], np.array([y])) for of in derivatives)
    rounding = 8 * np.finfo(float).eps * (1.0 + np.abs(eta).max())
    expected = log_softmax([0.0, *eta])[y]
    assert from_graph.value[0] == pytest.approx(expected, rel=1e-12, abs=rounding)
    # Probabilities have the predictors' rounding errors.
    for mine, other in zip(ours, from_graph, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=rounding)
    assert np.all(np.linalg.eigvalsh(ours.second[:, :, 0]) <= rounding)


# --- reading ------------------------------------------------------------------------------------

X, Y = softmax_rows(50, 3, 3)
SPELLINGS = {
    "logit_p": lambda W, b: dict(logit_p=pt.dot(X, W) + b),
    "softmax": lambda W, b: dict(p=pm.math.softmax(pt.dot(X, W) + b, axis=-1)),
    "special": lambda W, b: dict(p=pt.special.softmax(b + X @ W, axis=1)),
    "reference": lambda W, b: dict(
        logit_p=pt.concatenate([pt.zeros((50, 1)), pt.dot(X, W[:, 1:]) + b[1:]], axis=1)
    ),
    "reference set": lambda W, b: dict(
        logit_p=pt.set_subtensor(pt.zeros((50, 3))[:, 1:], pt.dot(X, W[:, 1:]) + b[1:])
    ),
    # As Bambi writes it, for models of an intercept alone.
    "ones": lambda W, b: dict(
        logit_p=pt.concatenate([np.zeros((50, 1)), np.ones((50, 1)) * (X @ W[:, 1:])], axis=1)
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
    assert reading.regressions[0].likelihood == Softmax(n_predictors=2)
    design, w = reading.regressions[0].design, reading.coefficients[0]
    assert np.shares_memory(design.X, X)
    point = model.initial_point(random_seed=1)
    rng = np.random.default_rng(3)
    point = {key: rng.normal(size=value.shape) for key, value in point.items()}
    inputs = [model.rvs_to_values[rv] for rv in model.free_RVs]
    function = pytensor.function(inputs, w, on_unused_input="ignore")
    eta = design.predictor(function(*(point[v.name] for v in inputs)))
    eta = np.column_stack([np.zeros(50), eta])
    expected = model.compile_logp(vars=model.observed_RVs)(point)
    assert log_softmax(eta, axis=1)[np.arange(50), Y].sum() == pytest.approx(expected)


def test_bad_models():
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0, shape=(3, 3))
        pm.Categorical("y", p=pm.math.sigmoid(X @ a), observed=Y)
    with pytest.raises(UnsupportedModelError, match="its p is not the softmax of a matrix"):
        step_of(model)
    with pytest.raises(ValueError, match="y has 1 values that are not classes 0 to 2"):
        step_of(softmax_model(X, np.where(np.arange(50) == 4, 3, Y), 3))
    for bound in (Tangent(), Taylor(order=3)):
        with pytest.raises(ValueError, match=f"the {bound.name} bound is not one on softmax"):
            step_of(softmax_model(X, Y, 3), bound=bound)
    for kind in (Bohning, JebaraChoromanska):
        with pytest.raises(ValueError, match="slack must be a finite number"):
            kind(slack=np.nan)


@pytest.mark.slow
def test_many_coefficients_are_pointed_out(monkeypatch, caplog):
    monkeypatch.setattr("pymc_flymc.anchor.mode_finding.MANY_COEFFICIENTS", 5)
    step_of(softmax_model(X, Y, 3), bound=Bohning())
    assert "'y' has 6 coefficients" in caplog.text


# --- exactness ----------------------------------------------------------------------------------


def softmax_posterior(X, y):
    """Log density of K = 3 classes, the first a reference, one column each, for `quadrature`."""

    def log_density(points):
        eta = np.concatenate([np.zeros((len(points), 1)), points], axis=1)[:, None, :] * X
        log_p = log_softmax(eta, axis=2)[:, np.arange(len(y)), y]
        return log_p.sum(axis=1) - 0.5 * np.sum((points / 1.5) ** 2, axis=1)

    return log_density


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    x = 1.0 + rng.random((30, 1))
    y = rng.choice(3, size=30, p=[0.15, 0.25, 0.6])
    reference = quadrature(softmax_posterior(x, y), [-8.0, -8.0], [8.0, 8.0])
    return softmax_model(x, y, 3, reference=True), reference


BOUNDS = [
    "auto",
    Bohning(slack=0.0),
    Bohning(tuned=False),
    JebaraChoromanska(),
    JebaraChoromanska(slack=0.0),
    JebaraChoromanska(tuned=False),
    Taylor(),
    None,
]


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS)
def test_posterior_by_quadrature(problem, bound):
    model, reference = problem
    step = step_of(model, bound=bound, transitions=150)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, reference)


@pytest.mark.slow
def test_identified_by_the_prior_alone():
    """Without a reference class: the contrasts are those of a model with correlated priors."""
    rng = np.random.default_rng(4)
    x = 1.0 + rng.random((30, 1))
    y = rng.choice(3, size=30, p=[0.15, 0.25, 0.6])
    model = softmax_model(x, y, 3)
    step = step_of(model, bound=Taylor(), transitions=50)
    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    contrasts = draws[..., 1:] - draws[..., :1]
    precision = np.linalg.inv(1.5**2 * (np.eye(2) + 1.0))

    def log_density(points):
        eta = np.concatenate([np.zeros((len(points), 1)), points], axis=1)[:, None, :] * x
        log_p = log_softmax(eta, axis=2)[:, np.arange(len(y)), y].sum(axis=1)
        return log_p - 0.5 * np.einsum("ni,ij,nj->n", points, precision, points)

    assert_matches(contrasts, quadrature(log_density, [-8.0, -8.0], [8.0, 8.0]))
    # The sum of the coefficients is not in the likelihood: it has its prior distribution.
    prior = quadrature(lambda s: -0.5 * s[:, 0] ** 2 / (3.0 * 1.5**2), [-20.0], [20.0])
    assert_matches(draws.sum(axis=2, keepdims=True), prior)


# --- choice -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_choice_of_the_bound():
    model = softmax_model(*softmax_rows(20_000, 4, 3), 3, reference=True)
    step = step_of(model)
    assert isinstance(step.bounds[0], Taylor)
    _, drawn = drive(step, model.initial_point(), tune=100, draws=500)
    assert drawn["likelihood_queries"].mean() < 50
    # Settings may leave conditional moves only ...
    step = step_of(model, brightness=ImplicitResampling())
    assert isinstance(step.bounds[0], JebaraChoromanska)
    # ... and so does a kernel's name.
    crowded = softmax_model(*softmax_rows(400, 30, 3), 3, reference=True)
    assert isinstance(step_of(crowded, kernel="metropolis").bounds[0], JebaraChoromanska)


def assert_hamiltonian_moves_match_nuts(model, seed):
    """The covariance of our draws is the metric of NUTS, which is exact whatever that is.

    With the diagonal one of its default it needs ten times as many gradients for these posteriors.
    """
    options = dict(model=model, chains=2, cores=2, progressbar=False, random_seed=seed)
    with model:
        step = FireflyHMC()
    ours = flat(pm.sample(step=step, tune=1000, draws=4000, **options))
    with model:
        nuts = pm.NUTS(scaling=np.cov(ours.reshape(-1, ours.shape[-1]).T), is_cov=True)
    theirs = flat(pm.sample(step=nuts, tune=500, draws=6000, **options))
    assert_matches(ours, reference_from_draws(theirs))


@pytest.mark.slow
def test_letter_against_nuts(data):
    arrays = data("letter")
    keep = np.flatnonzero(arrays["y"] < 5)[:1000]
    X, y = standardised(arrays["X"][keep]), arrays["y"][keep]
    model = softmax_model(X, y, 5, reference=True)
    assert_hamiltonian_moves_match_nuts(model, seed=4)


@pytest.fixture(scope="module")
def images(data):
    """Model of three kinds of images by thirty binary features, and draws of NUTS."""
    arrays = data("cifar3")
    bits = np.unpackbits(arrays["bits256_packed"][::6], axis=1)[:, :30]
    X = np.column_stack([np.ones(len(bits)), bits - 0.5])
    model = softmax_model(X, arrays["y"][::6], 3, reference=True)
    options = dict(model=model, chains=2, progressbar=False, random_seed=5)
    theirs = pm.sample(tune=800, draws=2500, nuts_sampler="pymc", **options)
    return model, options, reference_from_draws(flat(theirs))


def flat(idata):
    draws = idata.posterior["W"].to_numpy()
    return draws.reshape(*draws.shape[:2], -1)


@pytest.mark.slow
@pytest.mark.parametrize("bound", [Taylor(), JebaraChoromanska(), Bohning()])
def test_images_against_nuts(images, bound):
    model, options, reference = images
    ours = pm.sample(step=step_of(model, bound=bound), tune=1000, draws=4000, **options)
    assert_matches(flat(ours), reference)


@pytest.mark.slow
def test_all_bits_of_images_against_nuts(data):
    """514 parameters, six rows for each of them."""
    arrays = data("cifar3")
    bits = np.unpackbits(arrays["bits256_packed"][::6], axis=1)
    X = np.column_stack([np.ones(len(bits)), 2.0 * bits - 1.0])
    with pm.Model() as model:
        W = pm.Normal("W", 0.0, 0.1, shape=(X.shape[1], 2))
        weights = pm.math.concatenate([W, np.zeros((X.shape[1], 1))], axis=1)
        pm.Categorical("y", logit_p=X @ weights, observed=arrays["y"][::6])
    assert_hamiltonian_moves_match_nuts(model, seed=6)
