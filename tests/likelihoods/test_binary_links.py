"""Probit and complementary log-log links: reading, log-likelihoods, derivatives, exactness."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_ndtr, ndtr

from pymc_flymc import FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.likelihoods import BernoulliCloglog, BernoulliLogit, BernoulliProbit
from pymc_flymc.reading.model import read_model
from tests.support.comparison import assert_matches, quadrature
from tests.support.steps import drive

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(60), RNG.normal(size=(60, 2))])
Y = RNG.integers(0, 2, 60)
SPELLINGS = {
    "invprobit": (BernoulliProbit, pm.math.invprobit),
    "erf": (BernoulliProbit, lambda eta: 0.5 * (1.0 + pm.math.erf(eta / np.sqrt(2.0)))),
    "erfc": (BernoulliProbit, lambda eta: 0.5 * pm.math.erfc(-eta / np.sqrt(2.0))),
    "one minus": (BernoulliProbit, lambda eta: 1.0 - pm.math.invprobit(-eta)),
    "cloglog": (BernoulliCloglog, lambda eta: 1.0 - pm.math.exp(-pm.math.exp(eta))),
    "expm1": (BernoulliCloglog, lambda eta: -pt.expm1(-pm.math.exp(eta))),
    "logit": (BernoulliLogit, pm.math.sigmoid),
}
FAMILIES = [BernoulliProbit(), BernoulliCloglog()]


def log_likelihood(family, eta, y):
    if isinstance(family, BernoulliProbit):
        return log_ndtr((2.0 * y - 1.0) * eta)
    with np.errstate(all="ignore"):
        one = np.where(eta < -30, eta, np.log(-np.expm1(-np.exp(eta))))
        return np.where(y == 1, one, -np.exp(eta))


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name):
    family, inverse_link = SPELLINGS[name]
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", p=inverse_link(X @ b), observed=Y)
    reading = read_model(model)
    assert type(reading.regressions[0].likelihood) is family
    beta = np.array([0.1, -0.3, 0.7])
    np.testing.assert_allclose(reading.regressions[0].design.predictor(beta)[:, 0], X @ beta)


def test_jaakkola_jordan_is_for_the_logistic_link_only():
    for family in FAMILIES:
        assert not JaakkolaJordan().supports(family) and Taylor().supports(family)


@pytest.fixture(scope="module")
def graphs():
    """Log-likelihood and its first four derivatives, of each family."""
    eta, y = pt.dvector("eta"), pt.dvector("y")
    functions = []
    for family in FAMILIES:
        out = [family.log_likelihood([eta], y)]
        for _ in range(4):
            out.append(pytensor.grad(out[-1].sum(), eta))
        mode = pytensor.compile.Mode(linker="py", optimizer=None)
        functions.append(pytensor.function([eta, y], out, mode=mode))
    return functions


@given(i=st.integers(0, 1), eta=st.floats(-1e3, 700.0), y=st.sampled_from([0.0, 1.0]))
def test_log_likelihood(graphs, i, eta, y):
    value, *derivatives = (out[0] for out in graphs[i](np.array([eta]), np.array([y])))
    expected = log_likelihood(FAMILIES[i], np.array([eta]), np.array([y]))[0]
    # Where a probability is close to one, its complement has been rounded.
    assert value == pytest.approx(expected, rel=1e-13, abs=1e-15)
    assert np.all(np.isfinite(derivatives))
    # The second derivative: that of erfcx cancels, but for an error of 4 eps eta^2.
    assert derivatives[1] <= 16 * np.finfo(float).eps * (1.0 + eta**2)


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("i", [0, 1], ids=["probit", "cloglog"])
@pytest.mark.slow_cases("cloglog-1.0-4", "cloglog-1.0-3", "probit-0.0-3", "probit-0.0-4")
def test_limits_on_the_derivatives(graphs, i, y, order):
    """The least upper limit everywhere, and no less than what there is between two places."""
    grid = np.linspace(-9.0, 9.0, 200_001)
    derivative = np.abs(graphs[i](grid, np.full(len(grid), y))[order])
    family = FAMILIES[i]
    whole = family.derivative_bound(order, -9.0, 9.0, np.array([y]))[0]
    assert 0.999 * whole < derivative.max() <= whole * (1 + 1e-12)
    starts = np.arange(0, len(grid) - 2000, 500)
    for width in (10, 2000):
        largest = np.array([derivative[a : a + width + 1].max() for a in starts])
        limit = family.derivative_bound(
            order, grid[starts], grid[starts + width], np.full(len(starts), y)
        )
        # Rounding errors of the graph: the fourth derivative of erfcx cancels.
        assert np.all(largest <= limit * (1 + 1e-9) + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("family", FAMILIES, ids=["probit", "cloglog"])
def test_posterior_by_quadrature(family, order):
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(40), rng.normal(size=40)])
    link = ndtr if isinstance(family, BernoulliProbit) else family.inverse_link
    y = (rng.random(40) < link(x @ [0.3, 0.8])).astype(int)
    spelled = SPELLINGS["invprobit" if isinstance(family, BernoulliProbit) else "cloglog"][1]
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", p=spelled(x @ beta), observed=y)
        step = FireflyMH(bound=Taylor(order), transitions=30)
    assert type(step.target.parts[0].likelihood) is type(family)

    def log_density(points):
        value = log_likelihood(family, points @ x.T, y)
        return value.sum(axis=1) - 0.5 * np.sum(points**2, axis=1)

    draws, _ = drive(step, model.initial_point(), tune=300, draws=2000, chains=2)
    assert_matches(draws, quadrature(log_density, [-6, -6], [6, 6]))


def test_bernoulli_observed_values():
    with pytest.raises(ValueError, match="y has 1 values that are not 0 or 1, first in row 1: nan"):
        BernoulliLogit().read_observed(np.array([0.0, np.nan, 1.0]), "y")


def test_bernoulli_log_likelihood():
    eta = np.array([-800.0, -3.0, 0.0, 2.0, 800.0])
    graph = BernoulliLogit().log_likelihood([pt.constant(eta)], pt.constant([1.0, 0, 1, 1, 1]))
    value = plain_function([], graph)()
    expected = [-800, np.log1p(-expit(-3.0)), np.log(0.5), np.log(expit(2.0)), 0]
    np.testing.assert_allclose(value, expected, rtol=1e-14)
