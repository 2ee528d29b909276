"""Tables of counts of classes: reading, derivatives, exactness."""

import numpy as np
import pymc as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import log_softmax, softmax

from pymc_flymc import FireflyHMC, FireflyMH, Taylor, UnsupportedModelError, weighted
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import Multinomial
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.derivatives import RowDerivatives
from tests.support.comparison import assert_matches, quadrature
from tests.support.nuts import assert_match_nuts
from tests.support.readings import compare
from tests.support.steps import drive, step_of

K, N = 3, 40
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
TRIALS = RNG.integers(0, 9, N)
TRIALS[3] = 0
P = softmax(X @ RNG.normal(size=(2, K)), axis=1)
COUNTS = RNG.multinomial(TRIALS, P)
FIVE = RNG.multinomial(5, P)


class FromGraph(Multinomial):
    """Derivatives as those of other families, from the graph of the log-likelihood."""

    derivatives = None


@pytest.fixture(scope="module")
def derivatives():
    names = dict(n_predictors=K - 1, row_data=("1", "2", "n"))
    return tuple(RowDerivatives(of(**names)) for of in (Multinomial, FromGraph))


@given(
    eta=st.lists(st.floats(-1e2, 1e2), min_size=K - 1, max_size=K - 1).map(np.array),
    counts=st.lists(st.integers(0, 50), min_size=K, max_size=K).map(np.array),
)
def test_log_likelihood_and_its_derivatives(derivatives, eta, counts):
    n = counts.sum()
    y = np.array([[*counts, n]], dtype=float)
    ours, from_graph = (of(eta[:, None], y) for of in derivatives)
    rounding = 16 * np.finfo(float).eps * (1.0 + n) * (1.0 + np.abs(eta).max())
    expected = counts @ log_softmax([0.0, *eta])
    assert from_graph.value[0] == pytest.approx(expected, rel=1e-12, abs=rounding)
    for mine, other in zip(ours, from_graph, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-12, atol=rounding)


# --- reading ------------------------------------------------------------------------------------


def p_of(k=K):
    return pm.math.softmax(X @ pm.Normal("b", 0.0, 1.0, shape=(2, k)), axis=-1)


WRITTEN = {
    "one number of trials": lambda: pm.Multinomial("y", n=5, p=p_of(), observed=FIVE),
    "trials by row": lambda: pm.Multinomial("y", n=TRIALS, p=p_of(), observed=COUNTS),
    "two classes": lambda: pm.Multinomial(
        "y", n=COUNTS[:, :2].sum(axis=1), p=p_of(2), observed=COUNTS[:, :2]
    ),
    "data": lambda: pm.Multinomial(
        "y", n=pm.Data("n", TRIALS), p=pm.Deterministic("p", p_of()), observed=COUNTS
    ),
    "weights": lambda: weighted(
        "y", pm.Multinomial.dist(n=TRIALS, p=p_of()), np.arange(N) % 3, observed=COUNTS
    ),
}


def model_of(write):
    with pm.Model() as model:
        write()
    return model


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.slow_cases("weights", "two classes")
def test_reading(name, any_size):
    """A row for each row of counts, with the model's own density, but for a constant."""
    model = model_of(WRITTEN[name])
    reading = read_model(model)
    (regression,) = reading.regressions
    assert len(regression.y) == np.count_nonzero(np.arange(N) % 3) if name == "weights" else N
    assert regression.likelihood.name.endswith("multinomial")
    compare(model, reading)
    check_bound(Taylor(), regression.likelihood, regression.y)


def test_as_rows_of_categories():
    """Rows of a category each, weighted by its count, say the same."""
    row, category = np.nonzero(COUNTS)

    def write():
        dist = pm.Categorical.dist(p=p_of()[row])
        weighted("y", dist, COUNTS[row, category], observed=category)

    densities = [model_of(each).compile_logp() for each in (write, WRITTEN["trials by row"])]
    points = RNG.normal(size=(3, 2, K))
    found = [[density({"b": b}) for b in points] for density in densities]
    np.testing.assert_allclose(np.ptp(np.subtract(*found)), 0.0, atol=1e-9)


def with_one_more(counts):
    return counts + (np.arange(N) == 4)[:, None]


BAD = {
    "sums": (
        lambda: pm.Multinomial("y", n=TRIALS, p=p_of(), observed=with_one_more(COUNTS)),
        "the sum of counts of y has 1 values that are not n, first in row 4",
    ),
    "free trials": (
        lambda: pm.Multinomial("y", n=pm.HalfNormal("n").astype(int), p=p_of(), observed=FIVE),
        "n of the observed variable 'y' depends on other variables",
    ),
    "no softmax": (
        lambda: pm.Multinomial("y", n=5, p=pm.Dirichlet("p", np.ones(K)), observed=FIVE),
        r"Use pm.Multinomial\(n=n, p=pm.math.softmax\(eta, axis=-1\)\)",
    ),
    "halves": (
        lambda: pm.Multinomial("y", n=5, p=p_of(), observed=pm.Data("d", FIVE + 0.5)),
        "that are not counts",
    ),
    "overdispersed": (
        lambda: pm.DirichletMultinomial("y", n=5, a=pm.math.exp(p_of()), observed=FIVE),
        r"Instead of pm.DirichletMultinomial: pm.Multinomial\(.*pm.BetaBinomial of one class",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    write, message = BAD[name]
    with pytest.raises((UnsupportedModelError, ValueError), match=message):
        read_model(model_of(write))


# --- exactness ----------------------------------------------------------------------------------

x = 1.0 + RNG.random((20, 1))
FEW = RNG.multinomial(RNG.integers(1, 6, 20), [0.15, 0.25, 0.6])


@pytest.fixture(scope="module")
def few():
    """Three classes, the first of them the reference, with a coefficient each."""
    with pm.Model() as model:
        eta = pm.math.concatenate([np.zeros((20, 1)), x * pm.Normal("b", 0.0, 1.5, shape=2)], 1)
        pm.Multinomial("y", n=FEW.sum(axis=1), p=pm.math.softmax(eta, axis=-1), observed=FEW)

    def log_density(points):
        eta = np.concatenate([np.zeros((len(points), 1)), points], axis=1)[:, None, :] * x
        rows = np.sum(FEW * log_softmax(eta, axis=2), axis=(1, 2))
        return rows + stats.norm.logpdf(points, 0.0, 1.5).sum(axis=1)

    return model, quadrature(log_density, [-8.0, -8.0], [8.0, 8.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (FireflyMH, {"kernel": "joint"}),
        (FireflyMH, {"kernel": "metropolis"}),
        (FireflyMH, {"kernel": "surrogate"}),
        (FireflyHMC, {}),
    ],
)
def test_posterior_by_quadrature(few, kind, settings):
    model, posterior = few
    step = step_of(model, kind, **{"transitions": 20, **settings})
    assert isinstance(step.bounds[0], Taylor)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=6000, chains=2)
    assert_matches(draws, posterior)


@pytest.mark.slow
def test_against_nuts():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(2000, 3))
    counts = rng.multinomial(10, softmax(rows @ rng.normal(size=(3, 4)), axis=1))
    with pm.Model() as model:
        eta = rows @ pm.Normal("b", 0.0, 1.0, shape=(3, 4))
        pm.Multinomial("y", n=10, p=pm.math.softmax(eta, axis=-1), observed=counts)
        steps = [FireflyMH(), FireflyHMC()]
    assert_match_nuts(model, *steps, nuts=dict(draws=6000))
