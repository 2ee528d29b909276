"""Ordered outcomes: reading, and what their rows are."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyMH, UnsupportedModelError
from pymc_flymc.likelihoods import OrderedLogit
from pymc_flymc.reading.model import read_model
from tests.support.observing import guarded
from tests.support.readings import value_of
from tests.support.steps import drive

ordered = pm.distributions.transforms.ordered
sigmoid = pm.math.sigmoid

N, K = 60, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
GROUP = RNG.integers(0, 5, N)
TRUE = np.array([-1.0, 0.2, 1.5])
Y = np.sum((X @ [0.8, -0.5] + RNG.logistic(size=N))[:, None] > TRUE, axis=1)


def cutpoints(n=K - 1):
    return pm.Normal("c", np.linspace(-1.0, 1.0, n), 2.0, shape=n, transform=ordered)


def coefficients():
    return pm.Normal("beta", 0.0, 2.0, shape=2)


def from_probabilities(cumulative):
    """A model of p that somebody has written out, from probabilities of ``y <= k``."""
    n = cumulative.shape[0]
    together = pt.concatenate([pt.zeros((n, 1)), cumulative, pt.ones((n, 1))], axis=1)
    return together[:, 1:] - together[:, :-1]


def as_bambi_does(p):
    p = guarded(p)
    return pt.concatenate([p[:, :1], p[:, 1:] - p[:, :-1], 1.0 - p[:, -1:]], axis=1)


#: What a user may write, and how many coefficients there are.
WRITTEN = {
    "free": (lambda: pm.OrderedLogistic("y", X @ coefficients(), cutpoints(), observed=Y), 5),
    "given": (
        lambda: pm.OrderedLogistic("y", X @ coefficients(), TRUE, observed=Y, compute_p=False),
        2,
    ),
    "intercept": (
        lambda: pm.OrderedLogistic(
            "y", X @ coefficients() + pm.Normal("a"), cutpoints(), observed=Y
        ),
        5,
    ),
    "fixed predictor": (lambda: pm.OrderedLogistic("y", X[:, 0], cutpoints(), observed=Y), 3),
    "groups": (
        lambda: pm.OrderedLogistic(
            "y",
            X @ coefficients() + pm.Normal("a", shape=5)[GROUP] + X[:, 1],
            cutpoints(),
            observed=Y,
        ),
        10,
    ),
    "fixed distances": (
        lambda: pm.OrderedLogistic("y", X @ coefficients(), pm.Normal("c") + TRUE, observed=Y),
        5,
    ),
    "two levels": (
        lambda: pm.OrderedLogistic("y", X @ coefficients(), cutpoints(1), observed=Y > 1),
        3,
    ),
    "no value of a level": (
        lambda: pm.OrderedLogistic(
            "y", X @ coefficients(), cutpoints(), observed=np.where(Y == 1, 2, Y)
        ),
        5,
    ),
    "probabilities": (
        lambda: pm.Categorical(
            "y",
            p=from_probabilities(1.0 / (1.0 + pt.exp((X @ coefficients())[:, None] - cutpoints()))),
            observed=Y,
        ),
        5,
    ),
    "written as Bambi does": (
        lambda: pm.Categorical(
            "y", p=as_bambi_does(sigmoid(cutpoints() - (X @ coefficients())[:, None])), observed=Y
        ),
        5,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    """The comparisons and what is left are the model's own density."""
    write, n_coefficients = WRITTEN[name]
    with pm.Model() as model:
        write()
    reading = read_model(model)
    (regression,), (w,) = reading.regressions, reading.coefficients
    assert isinstance(regression.likelihood, OrderedLogit)
    assert regression.design.n_coefficients == n_coefficients
    start, rng = model.initial_point(), np.random.default_rng(1)
    for _ in range(4):
        point = {key: rng.normal(size=np.shape(value)) for key, value in start.items()}
        eta = regression.design.predictor(value_of(w, point))[:, 0]
        found = np.sum(regression.y * eta - np.logaddexp(0.0, eta))
        found += value_of(reading.prior_logp, point)
        assert found == pytest.approx(model.compile_logp()(point), rel=1e-10)


def test_rows_are_comparisons():
    """Levels at the ends are compared once, others twice; both kinds stand together."""
    with pm.Model() as model:
        WRITTEN["free"][0]()
    (regression,) = read_model(model).regressions
    n_below, n_above = np.sum(Y > 0), np.sum(Y < K - 1)
    np.testing.assert_array_equal(regression.y, np.repeat([1, 0], [n_below, n_above]))
    np.testing.assert_array_equal(regression.design.X[:n_below, :2], X[Y > 0])
    np.testing.assert_array_equal(regression.design.X[n_below:, :2], X[Y < K - 1])


def test_float32_designs_stay_so():
    rows = X.astype(np.float32)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.OrderedLogistic("y", pt.dot(rows, beta), cutpoints(), observed=Y)
    assert read_model(model).regressions[0].design.X.dtype == np.float32


def test_cutpoints_that_do_not_increase_have_no_density():
    """As in PyMC: also where nobody is at the level between them."""
    for y in (Y, np.where(Y == 1, 2, Y)):
        with pm.Model() as model:
            c = pm.Normal("c", TRUE, 2.0, shape=3)
            pm.OrderedLogistic("y", X[:, 0], c, observed=y)
        reading = read_model(model)
        assert np.isfinite(value_of(reading.prior_logp, {"c": TRUE}))
        for bad in ([0.2, -1.0, 1.5], [0.2, 0.2, 1.5]):
            assert value_of(reading.prior_logp, {"c": np.array(bad)}) == -np.inf


# --- exactness ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_few_rows_are_read():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(30_000, 4))
    y = np.sum((rows.sum(axis=1) + rng.logistic(size=30_000))[:, None] > TRUE, axis=1)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=4)
        pm.OrderedLogistic("y", rows @ beta, cutpoints(), observed=y, compute_p=False)
        step = FireflyMH()
    _, drawn = drive(step, model.initial_point(), tune=200, draws=300)
    assert drawn["likelihood_queries"].mean() < 100
    assert drawn["acceptance_probability"].mean() > 0.5


# --- refusals -----------------------------------------------------------------------------------

BAD = {
    "probit": (
        lambda e: pm.OrderedProbit("y", e, TRUE, observed=Y),
        "'y' is ordered with a probit link.*use pm.OrderedLogistic",
    ),
    "probit with a free scale": (
        lambda e: pm.OrderedProbit("y", e, TRUE, sigma=pm.HalfNormal("s"), observed=Y),
        "'y' is ordered with a probit link",
    ),
    "cloglog": (
        lambda e: pm.Categorical(
            "y", p=as_bambi_does(1.0 - pt.exp(-pt.exp(TRUE - e[:, None]))), observed=Y
        ),
        "'y' is ordered with a cloglog link",
    ),
    "cutpoints of rows": (
        lambda e: pm.OrderedLogistic("y", e, TRUE + X[:, :1] * pm.Normal("d"), observed=Y),
        "cannot read the observed variable 'y'.*one vector of cutpoints for all rows",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    write, message = BAD[name]
    with pm.Model() as model:
        write(X @ coefficients())
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model)


def test_impossible_levels():
    y = np.where(np.arange(N) == 7, 4, Y)
    with pm.Model() as model:
        pm.OrderedLogistic("y", X @ coefficients(), cutpoints(), observed=y)
    with pytest.raises(ValueError, match=r"y has 1 values other than the levels 0 to 3.*row 7: 4"):
        read_model(model)


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ([-1.0, 0.5, 0.5], "'y' must be finite and increase, and number 2 of them is 0.5, after"),
        ([np.nan, 0.5, 1.0], "'y' must be finite and increase, and number 0 of them is nan$"),
    ],
)
def test_impossible_cutpoints(cuts, message):
    with pm.Model() as model:
        pm.OrderedLogistic("y", X @ coefficients(), cuts, observed=Y)
    with pytest.raises(ValueError, match=message):
        read_model(model)


# --- real data ----------------------------------------------------------------------------------
