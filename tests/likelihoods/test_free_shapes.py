"""Weibull and gamma outcomes of free shape: reading, rows, exactness."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import (
    FireflyMH,
    UnsupportedModelError,
    weighted,
)
from pymc_flymc.reading.model import read_model
from pymc_flymc.reading.variables import value_variables
from tests.support.readings import check_density
from tests.support.steps import drive

exp = pm.math.exp

N = 60
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
Y = np.exp(X @ [0.5, 0.4]) * RNG.weibull(1.5, size=N)
UPPER = np.quantile(Y, 0.7) * np.linspace(0.8, 1.2, N)
GROUP, WEIGHTS = RNG.integers(0, 5, N), RNG.integers(0, 3, N).astype(float)


def eta():
    return X @ pm.Normal("beta", 0.0, 2.0, shape=2)


def gamma(make, observed=Y):
    """A gamma variable, from its shape."""
    shape = pm.HalfNormal("k", 2.0)
    return pm.Gamma("y", observed=observed, **make(shape))


def censored(scale, weights=None, lower=None):
    distribution = pm.Weibull.dist(pm.HalfNormal("k", 2.0), scale)
    settings = dict(lower=lower, upper=UPPER)
    if weights is None:
        return pm.Censored("y", distribution, observed=np.clip(Y, lower, UPPER), **settings)
    kept = np.minimum(Y, UPPER)
    return weighted("y", pm.Censored.dist(distribution, **settings), weights, observed=kept)


#: What a user may write, with the number of coefficients, that of log alpha included.
WRITTEN = {
    "weibull": (
        lambda: pm.Weibull("y", pm.HalfNormal("k", 2.0), exp(eta()), observed=Y),
        3,
    ),
    "weibull, a function": (
        lambda: pm.Weibull("y", 1.0 + exp(pm.Normal("k")), 2.0 * exp(eta()), observed=Y),
        4,
    ),
    "weibull by its mean": (
        lambda: (lambda k: pm.Weibull("y", k, exp(eta()) / pt.gamma(1 + 1 / k), observed=Y))(
            pm.HalfNormal("k", 2.0)
        ),
        4,
    ),
    "weibull alone": (
        lambda: pm.Weibull("y", pm.HalfNormal("k", 2.0), pm.HalfNormal("s"), observed=Y),
        2,
    ),
    "censored": (lambda: censored(exp(eta())), 3),
    "censored twice": (lambda: censored(exp(eta()), lower=0.3 * UPPER), 3),
    "censored, groups": (lambda: censored(exp(eta() + pm.Normal("a", shape=5)[GROUP])), 8),
    "censored, weights": (lambda: censored(exp(eta()), WEIGHTS), 3),
    "gamma": (lambda: gamma(lambda a: dict(alpha=a, beta=a / exp(eta()))), 3),
    "gamma, exposures": (lambda: gamma(lambda a: dict(alpha=a, beta=a / (UPPER * exp(eta())))), 3),
    "gamma by its rate": (lambda: gamma(lambda a: dict(alpha=a, beta=exp(-eta()))), 4),
    "gamma by its scale": (
        lambda: gamma(lambda a: dict(alpha=a, beta=1 / exp(eta())), pm.Data("values", Y)),
        4,
    ),
    "gamma alone": (lambda: gamma(lambda a: dict(alpha=a, beta=pm.HalfNormal("b"))), 2),
    "gamma by mean and sd": (
        lambda: (lambda m: gamma(lambda a: dict(mu=m, sigma=m / a**0.5)))(exp(eta())),
        3,
    ),
    "gamma by a coefficient of variation": (
        lambda: (lambda m: gamma(lambda a: dict(mu=m, sigma=a * m)))(UPPER * exp(eta())),
        3,
    ),
    "gamma, weights": (
        lambda: (
            lambda a: weighted("y", pm.Gamma.dist(a, beta=a / exp(eta())), WEIGHTS, observed=Y)
        )(pm.HalfNormal("k", 2.0)),
        3,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_reading(name):
    """Rows and what is left are the model's own density, but for a constant."""
    write, n_coefficients = WRITTEN[name]
    with pm.Model() as model:
        write()
    reading = read_model(model)
    (regression,) = reading.regressions
    assert regression.design.n_coefficients == n_coefficients
    check_density(model, reading)


BAD = {
    "a shape for each row": (
        lambda: pm.Gamma("y", mu=exp(eta()), sigma=pm.HalfNormal("k"), observed=Y),
        r"alpha of .* has a value for each row.*pm.Gamma\(alpha, beta=alpha",
    ),
    "no exponential": (
        lambda: gamma(lambda a: dict(alpha=a, beta=a / (1.0 + exp(eta())))),
        "its scale is not the exponential function",
    ),
    "a shape by rows": (
        lambda: pm.Weibull("y", exp(X[:, 1] * pm.Normal("k")), exp(eta()), observed=Y),
        "a scalar alpha",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    write, message = BAD[name]
    with pm.Model() as model:
        write()
    with pytest.raises(UnsupportedModelError, match=message):
        read_model(model)


def test_rows_out_of_core_are_refused():
    with pm.Model():
        x, y = pm.Data("x", X[:20]), pm.Data("values", Y[:20])
        k, mean = pm.HalfNormal("k"), exp(x @ pm.Normal("beta", shape=2))
        pm.Gamma("y", alpha=k, beta=k / mean, observed=y)
        with pytest.raises(UnsupportedModelError, match="smooth"):
            FireflyMH(data={"x": X, "values": Y})


def test_impossible_values():
    """They are told before a design is made of them."""
    bad = np.where(np.arange(N) == 3, -1.0, Y)
    for kind in (pm.Weibull, pm.Gamma):
        with pm.Model() as model:
            kind("y", pm.HalfNormal("k"), exp(eta()), observed=bad)
        with pytest.raises(ValueError, match=r"y has 1 values that are not positive.*row 3: -1"):
            read_model(model)


def test_other_outcomes_are_noticed():
    """Those of a free shape are in the design."""
    with pm.Model() as model:
        values = pm.Data("values", Y)
        pm.Weibull("y", pm.HalfNormal("k", 2.0), exp(eta()), observed=values)
    before = read_model(model).regressions[0].design.X
    with model:
        step = FireflyMH(transitions=4)
        pm.set_data({"values": 2.0 * Y})
        point = model.initial_point()
        drive(step, point, tune=4, draws=4)
    after = step.target.data.rows.X
    np.testing.assert_allclose(after[:, 2] - before[:, 2], np.log(2.0), rtol=1e-12)


def test_step_that_leaves_the_shape_to_another_is_refused():
    with pm.Model() as model:
        WRITTEN["weibull"][0]()
    with pytest.raises(UnsupportedModelError, match=r"depends on \['k'\]"):
        read_model(model, ["beta"])
    assert len(value_variables(model, None)) == 2
