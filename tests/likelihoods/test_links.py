"""The logistic link, however it is written."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import expit

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.likelihoods.links import find_predictor
from pymc_flymc.likelihoods.products import simplified
from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density, check_reading

N = 20
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, 3))
Y = (RNG.random(N) < 0.5).astype(np.int64)
sigmoid, exp = pm.math.sigmoid, pm.math.exp


LINKS = {
    "logit_p": lambda e: {"logit_p": e},
    "sigmoid": lambda e: {"p": sigmoid(e)},
    "invlogit": lambda e: {"p": pm.math.invlogit(e)},
    "pt.sigmoid": lambda e: {"p": pt.sigmoid(e)},
    "1 / (1 + exp(-x))": lambda e: {"p": 1 / (1 + exp(-e))},
    "exp(x) / (1 + exp(x))": lambda e: {"p": exp(e) / (1 + exp(e))},
    "1 - sigmoid": lambda e: {"p": 1 - sigmoid(-e)},
    "1 - 1 / (1 + exp(x))": lambda e: {"p": 1 - 1 / (1 + exp(e))},
    "tanh": lambda e: {"p": (1 + pt.tanh(e / 2)) / 2},
    "exp(-softplus)": lambda e: {"p": exp(-pt.softplus(-e))},
    "exp(x - softplus(x))": lambda e: {"p": exp(e - pt.softplus(e))},
    "switch": lambda e: {"p": pt.switch(e > 0, 1 / (1 + exp(-e)), exp(e) / (1 + exp(e)))},
    "specify_shape": lambda e: {"p": pt.specify_shape(sigmoid(e), (N,))},
    "squeezed column": lambda e: {"p": sigmoid(e[:, None]).squeeze(1)},
    "fill": lambda e: {"p": pt.fill(pt.ones_like(e), 1) * sigmoid(e)},
}


@pytest.mark.parametrize("name", LINKS)
def test_link(name):
    with pm.Model() as model:
        b = pm.Normal("b", sigma=2, shape=3)
        c = pm.Normal("c")
        pm.Bernoulli("y", **LINKS[name](X @ b + c), observed=Y)
    b, c = np.array([0.5, -2.0, 1.0]), 0.3
    reading, eta = check_reading(model, {"b": b, "c": c})
    np.testing.assert_allclose(eta, X @ b + c)
    (regression,) = reading.regressions
    assert np.shares_memory(regression.design.X, X)
    assert (regression.name, regression.likelihood.name) == ("y", "bernoulli-logit")
    assert [v.name for v in reading.vars] == ["b", "c"]


#: Of tables: probabilities whose axes are not those of what they are a function of.
OF_TABLES = {
    "of rows": lambda a, b: sigmoid(a)[:, None],
    "of columns": lambda a, b: sigmoid(b)[None, :],
    "transposed": lambda a, b: sigmoid(b[:, None] - a).T,
    "of both": lambda a, b: sigmoid(a[:, None] - b),
}


@pytest.mark.parametrize("name", OF_TABLES)
@pytest.mark.parametrize("shape", [(5, 4), (4, 4)])
def test_link_of_a_table(name, shape):
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=shape[0]), pm.Normal("b", shape=shape[1])
        pm.Bernoulli("y", p=OF_TABLES[name](a, b), observed=RNG.integers(0, 2, shape))
    check_density(model, read_model(model))


GROUP, OTHER = RNG.integers(0, 4, N), RNG.integers(0, 3, N)
#: Observed variables of which each row looks up the parameter of its group.
LOOKED_UP = {
    "bernoulli": lambda y, a, b: pm.Bernoulli(
        y, p=pm.Deterministic("p", sigmoid(a))[GROUP], observed=Y
    ),
    "of two factors": lambda y, a, b: pm.Bernoulli(
        y, p=sigmoid(a[:, None] + b)[GROUP, OTHER], observed=Y
    ),
    "poisson": lambda y, a, b: pm.Poisson(
        y, mu=np.arange(1.0, 1.0 + N) * pm.Deterministic("mu", exp(a)[GROUP]), observed=Y
    ),
    "categorical": lambda y, a, b: pm.Categorical(
        y, pm.Deterministic("p", pm.math.softmax(a[:, None] * b, axis=1))[GROUP], observed=OTHER
    ),
    "categorical, of two factors": lambda y, a, b: pm.Categorical(
        y, pm.math.softmax(a[:, None, None] * b[:, None] * b, axis=-1)[GROUP, OTHER], observed=OTHER
    ),
}


@pytest.mark.parametrize("name", LOOKED_UP)
@pytest.mark.slow_cases("categorical, of two factors")
def test_link_of_what_is_looked_up(name):
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=3)
        LOOKED_UP[name]("y", a, b)
    check_density(model, read_model(model))


def test_looked_up_classes_are_no_softmax():
    with pm.Model() as model:
        p = pm.math.softmax(pm.Normal("a", shape=(4, 3)), axis=-1)[:, [0, 0, 1]]
        pm.Categorical("y", p[GROUP], observed=OTHER)
    with pytest.raises(UnsupportedModelError, match="not the softmax of a matrix"):
        read_model(model)


def test_a_variable_along_two_axes_is_no_predictor():
    a = pt.vector("a", dtype="float64")
    rising = exp(a)[:, None] / (1.0 + exp(a))  # of two elements, which happen to be one in a link
    assert find_predictor(rising, expit) is None
    assert find_predictor(exp(a)[:, None] / (1.0 + exp(a))[:, None], expit) is not None


def test_factors_below_zero_may_have_a_product_above():
    with pm.Model() as model:
        a, b, c = pm.Normal("a", -1.0), pm.Normal("b", -2.0), pm.Normal("c", -3.0)
        mu = a * (np.arange(1.0, 1.0 + N) * exp(X @ pm.Normal("beta", shape=3)) / b)
        pm.Poisson("y", mu=mu * pt.sqr(c), observed=Y)
    check_density(model, read_model(model))


def test_link_of_predictor_written_twice():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", p=exp(X @ b) / (1 + exp(X @ b)), observed=Y)
    _, eta = check_reading(model, {"b": [1, 2, 3]})
    np.testing.assert_allclose(eta, X @ [1, 2, 3])


@pytest.mark.parametrize(
    "link",
    [
        lambda e: pm.math.clip(sigmoid(e), 1e-9, 1 - 1e-9),
        lambda e: pt.maximum(sigmoid(e), 1e-30),
        lambda e: 0.01 + 0.98 * sigmoid(e),
        lambda e: sigmoid(e) * np.linspace(0.5, 1, N),
        lambda e: exp(-exp(-e)),
        lambda e: sigmoid(e) * sigmoid(X[:, 0] * e),
        lambda e: pm.math.abs(e) / (1 + pm.math.abs(e)),
    ],
)
def test_other_links_are_refused(link):
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Bernoulli("y", p=link(X @ b), observed=Y)
    with pytest.raises(UnsupportedModelError, match="'y': its p is not the logistic function"):
        read_model(model)


def test_link_of_float32_graph():
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        eta = (X.astype(np.float32) @ b).astype("float32")
        pm.Bernoulli("y", p=1 / (1 + exp(-eta)), observed=Y)
    assert read_model(model).regressions[0].design.X.dtype == np.float32


A, B, V = pt.dscalar("a"), pt.dscalar("b"), pt.dvector("v")
MU = pt.exp(V)
VALUES = {A: 1.7, B: -0.6, V: np.array([0.3, -2.0, 5.0])}

#: Products, and what they depend on once simplified.
CASES = {
    "sd in proportion": (MU**2 / (MU / A**0.5) ** 2 * pt.sign(MU / A**0.5), [A]),
    "coefficient of variation": (MU**2 / (B * MU) ** 2 * pt.sign(B * MU), [B]),
    "a scale": (1 / (MU / pt.sqr(MU * A)), [A, V]),
    "not in proportion": (MU**2 / A**2 * pt.sign(A), [A, V]),
    "roots of squares": (pt.sqrt(pt.sqr(B)) * B * V / V, [B]),
    "a sign of a square": (pt.sign(B**2 * V) / V * V**3 * B / B**2, [B, V]),
    "nothing left": (V / V * 2.0, []),
    "other powers": (V**B * V / V, [B, V]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    product, expected = CASES[name]
    found = simplified(product)
    assert set(free_inputs([found])) == set(expected)
    value, simple = plain_function(list(VALUES), [product, found])(*VALUES.values())
    np.testing.assert_allclose(*np.broadcast_arrays(simple, value), rtol=1e-12)


def test_what_has_nothing_to_cancel_stays():
    product = 2.0 * A / MU
    assert simplified(product) is product


def test_without_signs():
    """Right where they are one."""
    product = MU * pt.sign(B * V)
    assert free_inputs([simplified(product, signs=False)]) == [V]
