"""What is close to a likelihood that was read is refused, what is that likelihood never."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.sparse import as_sparse_variable, structured_dot
from scipy.sparse import csr_matrix

from pymc_flymc import UnsupportedModelError
from pymc_flymc.agreement.comparison import ROWS, choose_rows
from pymc_flymc.agreement.rounding import RoundedFunction
from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.reading import tables
from pymc_flymc.reading.model import read_model
from pymc_flymc.regression.expansion import LikelihoodExpansion
from pymc_flymc.regression.matrices import SymmetricMatrix
from tests.support.readings import compare

N = 80
RNG = np.random.default_rng(3)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
BINARY = (RNG.random(N) < 0.5).astype(int)
START = np.array([0.1, 1.0])
exp, sigmoid, probit = pm.math.exp, pm.math.sigmoid, pm.math.invprobit


def model_of(observe, x=X, dtype="float64"):
    with pm.Model() as model:
        observe(x @ pm.Normal("b", START.astype(dtype), 1.0, dtype=dtype))
    return model


def with_outlier(at, y=BINARY, outcome=1):
    """Return rows of which the last has a predictor far off, and their outcomes."""
    x, y = X.copy(), np.array(y)
    x[-1, 1], y[-1] = (at - START[0]) / START[1], outcome
    return x, y


def bernoulli(p):
    return lambda y: lambda eta: pm.Bernoulli("y", p=p(eta), observed=y)


def poisson(mu):
    return lambda y: lambda eta: pm.Poisson("y", mu=mu(eta), observed=y)


def beta(mean):
    def observe(y):
        y = np.where(y == 1, 0.9, 0.2)
        return lambda eta: pm.Beta("y", mu=mean(eta), nu=5.0, observed=y)

    return observe


#: How a model may be written, with a leak or without, and where a leak is seen.
NEARLY = {
    "probit": (bernoulli(lambda eta: 5e-9 + (1 - 1e-8) * probit(eta)), -8.0),
    "logit": (bernoulli(lambda eta: 1e-14 + (1 - 2e-14) * sigmoid(eta)), -45.0),
    "Poisson": (poisson(lambda eta: exp(eta) + 1e-14), -45.0),
    "beta": (beta(lambda eta: 1e-15 + (1 - 2e-15) * sigmoid(eta)), -40.0),
}
EXACTLY = {
    "probit": (bernoulli(probit), -8.0),
    "probit, far": (bernoulli(probit), -30.0),
    "probit, on the other side": (bernoulli(probit), 9.0),
    "logit": (bernoulli(sigmoid), -45.0),
    "logit by hand": (bernoulli(lambda eta: exp(eta) / (1 + exp(eta))), -45.0),
    "logit, on the other side": (bernoulli(lambda eta: 1 / (1 + exp(-eta))), 45.0),
    "cloglog": (bernoulli(lambda eta: 1 - exp(-exp(eta))), -45.0),
    "cloglog, far up": (bernoulli(lambda eta: 1 - exp(-exp(eta))), 3.5),
    "Poisson": (poisson(exp), -45.0),
    "beta": (beta(sigmoid), -40.0),
}


@pytest.mark.parametrize("name", NEARLY)
def test_nearly_a_link(name, monkeypatch):
    """Refused when it is read, and by the comparison alone."""
    observe, at = NEARLY[name]
    x, y = with_outlier(at)
    model = model_of(observe(y), x)
    with pytest.raises(UnsupportedModelError, match="cannot read the observed variable 'y'"):
        read_model(model)
    monkeypatch.setattr("pymc_flymc.likelihoods.links.are_tails", lambda *arguments: True)
    with pytest.raises(UnsupportedModelError, match="write it as one of your own"):
        compare(model, read_model(model), 0.1)


@pytest.mark.parametrize("outcome", [0, 1])
@pytest.mark.parametrize("name", EXACTLY)
def test_a_link_in_its_tails(name, outcome):
    """The model's own graph loses digits there, and both outcomes are as PyMC has them."""
    observe, at = EXACTLY[name]
    x, y = with_outlier(at, outcome=outcome)
    model = model_of(observe(y), x)
    compare(model, read_model(model), 0.1)


@pytest.mark.parametrize(
    "x",
    [
        X.astype(np.float32),
        X * [1.0, 1e7],
        X * [1.0, 1e-9],
        np.column_stack([np.ones(N), 1e5 + X[:, 1]]),
        np.column_stack([np.ones(N), np.where(BINARY, 30.0, -30.0)]),
        RNG.integers(0, 3, (N, 2)).astype(np.int8),
    ],
    ids=["float32", "large", "small", "not centred", "separated", "int8"],
)
@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_numbers_of_all_sizes(x, spread):
    model = model_of(lambda eta: pm.Bernoulli("y", logit_p=eta, observed=BINARY), x)
    compare(model, read_model(model), spread)


def test_a_model_in_single_precision():
    def observe(eta):
        noise = RNG.normal(size=N).astype(np.float32)
        pm.StudentT("y", nu=4.0, mu=eta, sigma=pm.HalfNormal("s"), observed=noise)

    model = model_of(observe, X.astype(np.float32), "float32")
    compare(model, read_model(model))


@pytest.mark.parametrize(
    "predictor",
    [
        lambda b, x: (x @ b)[::-1],
        lambda b, x: pt.concatenate([x[:9] @ b, x[9:] @ b]),
        lambda b, x: b[0] + b[1] * np.arange(len(x)) / len(x),
    ],
    ids=["backwards", "blocks", "numbers of rows"],
)
def test_rows_that_are_not_those_of_the_data(predictor):
    """What is evaluated for a few rows is a guess, and no reason to refuse a model, or not to."""
    n = 2 * ROWS
    x = np.column_stack([np.ones(n), RNG.normal(size=n)])
    with pm.Model() as model:
        eta = predictor(pm.Normal("b", START, 1.0), x)
        pm.Bernoulli("y", logit_p=eta, observed=RNG.integers(0, 2, n))
    reading = read_model(model)
    compare(model, reading)
    (part,) = reading.regressions
    wrong = replace(part, design=replace(part.design, X=np.roll(part.design.X, 1, axis=0)))
    with pytest.raises(UnsupportedModelError, match="as Firefly reads it"):
        compare(model, replace(reading, regressions=(wrong,)))


def test_a_density_where_the_reading_has_none():
    """Its logarithm of a variance would keep chains off values that the model allows."""

    def observe(eta):
        v = pm.Normal("v", 0.5, 0.5)
        pm.Normal("y", eta, pm.math.sqrt(1.0 + X[:, 1] ** 2 + v), observed=X[:, 1])

    model = model_of(observe)
    with pytest.raises(UnsupportedModelError, match=r"the model has a density at .*v = -.*none"):
        compare(model, read_model(model))


G, H = np.arange(N) % 8, np.arange(N) // 8 % 8


def normal(name, mean, sd, *shape):
    return pm.Normal(name, mean, sd, shape=shape)


#: Products of factors that may be negative together. `level` is not negative by itself.
PRODUCTS = {
    "two": lambda: normal("rate", 2.0, 1.0, 8)[G] * normal("season", 2.0, 1.0, 8)[H],
    "three": lambda: (
        normal("level", 5.0, 0.5, 2)[G // 4]
        * normal("rate", 1.0, 1.0, 8)[G]
        * normal("season", 1.0, 1.0, 8)[H]
    ),
    "a number": lambda: (
        normal("level", 5.0, 0.5) * normal("rate", 1.0, 1.0) * normal("season", 1.0, 1.0, 8)[G]
    ),
    "four": lambda: (
        normal("level", 5.0, 0.5, 2)[G // 4]
        * normal("more", 5.0, 0.5, 2)[H // 4]
        * normal("rate", 1.0, 1.0, 8)[G]
        * normal("season", 1.0, 1.0, 8)[H]
    ),
    "shifted": lambda: (3.0 + normal("rate", 0.0, 1.0, 8))[G] * (3.0 + normal("s", 0.0, 1.0, 8))[H],
    "ratio": lambda: normal("rate", 2.0, 1.0, 8)[G] / normal("season", 2.0, 1.0, 8)[H],
}
NO_MODE = r"the model has a density at .*none"


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_a_density_where_some_factors_are_negative(product):
    """Their product is positive there, which random steps from positive factors do not find."""
    model = model_of(lambda eta: pm.Poisson("y", product() * exp(eta), observed=BINARY))
    with pytest.raises(UnsupportedModelError, match=NO_MODE):
        compare(model, read_model(model), 0.1)


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_a_density_where_some_factors_of_scales_are_negative(product):
    model = model_of(lambda eta: pm.Normal("y", eta, product(), observed=X[:, 1]))
    with pytest.raises(UnsupportedModelError, match=NO_MODE):
        compare(model, read_model(model), 0.1)


def test_products_that_are_read_with_all_their_signs():
    """One factor cannot be negative without the mean being so, and two numbers are multiplied."""

    def observe(eta):
        numbers = normal("level", 2.0, 1.0) * normal("rate", 2.0, 1.0)
        pm.Poisson("y", numbers * pm.HalfNormal("season", shape=8)[G] * exp(eta), observed=BINARY)

    model = model_of(observe)
    compare(model, read_model(model), 0.1)


def test_values_beyond_checks_are_no_density():
    """PyMC's own function of a negative nu or sigma has one, which its checks refuse."""

    def observe(eta):
        nu, s = pm.Normal("nu", 1.0, 1.0), pm.Normal("s", 0.5, 1.0)
        pm.StudentT("y", nu=nu, mu=eta, sigma=s, observed=X[:, 1])

    model = model_of(observe)
    compare(model, read_model(model))


def test_what_cannot_be_evaluated_is_not_silent(caplog, monkeypatch):
    """Were it, an error in the evaluation itself would let all models through."""

    def fails(self, *arguments, seed=0):
        return None

    monkeypatch.setattr(RoundedFunction, "__call__", fails)
    model = model_of(bernoulli(sigmoid)(BINARY))
    compare(model, read_model(model))
    assert caplog.text.count("could not be compared with the model's own: there are no two") == 2


@pytest.mark.parametrize(("name", "unknown"), [("cloglog", True), ("probit", False)])
def test_rows_that_cannot_be_evaluated_are_counted(name, unknown, caplog):
    """Where a model's own density is zero, which the link is not, the other rows are compared."""
    x, y = with_outlier(-800.0 if unknown else -8.0)
    model = model_of(EXACTLY[name][0](y), x)
    compare(model, read_model(model))
    assert ("can be evaluated in 1 of 80 rows" in caplog.text) == unknown


def test_extreme_rows_are_among_those_compared(monkeypatch):
    n = 20_000
    x = np.column_stack([np.ones(n), RNG.normal(size=(n, 60))])
    x[1234, 1], x[4321, 1] = 50.0, -7.0
    group, offset = np.zeros(n, int), np.zeros(n)
    group[777], offset[888] = 3, 2.5
    with pm.Model() as model:
        b, a = pm.Normal("b", 0.0, 1.0, shape=61), pm.Normal("a", 0.0, 1.0, shape=4)
        eta = x @ b + a[group] + offset
        pm.Bernoulli("y", logit_p=eta, observed=np.arange(n) == 55)
    reading = read_model(model)
    w = np.zeros(reading.regressions[0].design.n_coefficients)
    anchor = AnchorPart(
        np.eye(len(w)), LikelihoodExpansion(0.0, w, SymmetricMatrix(np.eye(len(w))), w)
    )
    (part,) = next(iter(reading.taken.values())).parts
    rng = np.random.default_rng(0)
    rows = choose_rows(reading.regressions, [part.rows], [anchor], n, rng)
    assert len(rows) == len(set(rows)) == ROWS
    assert {1234, 777, 888, 55} <= set(rows)
    # The random ones are from everywhere.
    assert np.histogram(rows, 10, (0, n))[0].min() > 60


def test_tables(monkeypatch):
    answers = RNG.integers(0, 2, (12, 5))
    with pm.Model() as model:
        persons, items = pm.Normal("persons", shape=12), pm.Normal("items", shape=5)
        pm.Bernoulli("y", logit_p=persons[:, None] - items, observed=answers)
    compare(model, read_model(model))
    broadcast = tables.pt.broadcast_to
    monkeypatch.setattr(tables.pt, "broadcast_to", lambda *args: 0.99 * broadcast(*args))
    with pytest.raises(UnsupportedModelError, match="log-likelihood of 'y', as Firefly reads"):
        compare(model, read_model(model))


@pytest.mark.filterwarnings("error")
def test_sparse_data():
    """Errors are drawn for the numbers that a sparse matrix holds: zeros are exact."""
    data = csr_matrix(np.where(RNG.random((N, 4)) < 0.5, RNG.normal(size=(N, 4)), 0.0))
    with pm.Model() as model:
        eta = structured_dot(as_sparse_variable(data), pm.Normal("b", shape=(4, 1)))[:, 0]
        pm.Bernoulli("y", logit_p=eta, observed=BINARY)
    reading = read_model(model)
    compare(model, reading)
    (part,) = reading.regressions
    sparse = replace(part.design.sparse, numbers=1.0000001 * part.design.sparse.numbers)
    wrong = replace(part, design=replace(part.design, sparse=sparse))
    with pytest.raises(UnsupportedModelError, match="as Firefly reads it"):
        compare(model, replace(reading, regressions=(wrong,)))
