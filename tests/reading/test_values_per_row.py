"""Parameters with a value for each row, written without an index, and what else is so written."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density

N = 40
RNG = np.random.default_rng(5)
TRIALS = RNG.integers(1, 9, N)
EXPOSURE = RNG.uniform(0.5, 2.0, N)
COUNTS = RNG.poisson(2, N)
ONES = RNG.integers(0, 2, N)
POSITIVE = RNG.gamma(2.0, 1.0, N)
GROUP = np.arange(N) % 5
PRICE = RNG.normal(size=(N, 3))
CHOICE = RNG.integers(0, 3, N)


def chances():
    return pm.Beta("theta", 2.0, 2.0, shape=N)


def rates(shape=N):
    return pm.Gamma("rate", 3.0, 1.0, shape=shape)


def items():
    ability = pm.Normal("t", shape=N)
    for j in range(3):
        pm.Bernoulli(f"y{j}", logit_p=ability - pm.Normal(f"b{j}"), observed=(ONES + GROUP) % 2)


#: Models, each of which is read as if it looked its values up by ``np.arange(N)``.
PER_ROW = {
    "binomial": lambda: pm.Binomial("y", n=TRIALS, p=chances(), observed=TRIALS // 2),
    "log odds": lambda: pm.Bernoulli("y", logit_p=pm.math.logit(chances()), observed=ONES),
    "bernoulli": lambda: pm.Bernoulli("y", p=0.1 + 0.9 * chances(), observed=ONES),
    "poisson": lambda: pm.Poisson("y", mu=EXPOSURE * rates(), observed=COUNTS),
    "negative binomial": lambda: pm.NegativeBinomial("y", mu=rates(), alpha=2.0, observed=COUNTS),
    "free alpha": lambda: pm.NegativeBinomial(
        "y", mu=rates(), alpha=pm.Gamma("alpha", 2.0, 1.0), observed=COUNTS
    ),
    "zero-inflated": lambda: pm.ZeroInflatedPoisson("y", psi=0.8, mu=rates(), observed=COUNTS),
    "exponential": lambda: pm.Exponential("y", scale=rates(), observed=POSITIVE),
    "weibull": lambda: pm.Weibull(
        "y", alpha=pm.Gamma("alpha", 2.0, 1.0), beta=rates(), observed=POSITIVE
    ),
    "gamma": lambda: pm.Gamma(
        "y", alpha=(alpha := pm.Gamma("alpha", 2.0, 1.0)), beta=alpha / rates(), observed=POSITIVE
    ),
    "gamma of mean and deviation": lambda: pm.Gamma(
        "y", mu=(mean := rates()), sigma=pm.HalfNormal("cv") * mean, observed=POSITIVE
    ),
    "beta": lambda: pm.Beta("y", mu=chances(), nu=5.0, observed=POSITIVE / 20.0),
    "random walk": lambda: pm.Normal("y", pt.cumsum(pm.Normal("z", shape=N)), 1.0, observed=COUNTS),
    "product": lambda: pm.Normal(
        "y", pm.Normal("z", shape=N) * pm.HalfNormal("s", shape=N), 1.0, observed=COUNTS
    ),
    "table": lambda: pm.Poisson(
        "y", pm.math.exp(pm.Normal("z", shape=(8, 5))), observed=COUNTS.reshape(8, 5)
    ),
    "items": items,
}
#: Models that are read as another spelling of them is.
OTHERS = {
    "gamma of mean and deviation of groups": lambda: pm.Gamma(
        "y", mu=(mean := rates(5)[GROUP]), sigma=pm.HalfNormal("cv") * mean, observed=POSITIVE
    ),
    "taste of each group": lambda: pm.Categorical(
        "y", logit_p=pm.Normal("b", shape=5)[GROUP][:, None] * PRICE, observed=CHOICE
    ),
    "taste of each group, in softmax": lambda: pm.Categorical(
        "y",
        p=pm.math.softmax(pm.Normal("b", shape=5)[GROUP, None] * PRICE, axis=-1),
        observed=CHOICE,
    ),
    "outer product": lambda: pm.Poisson(
        "y",
        EXPOSURE.reshape(8, 5) * pt.outer(pm.math.exp(pm.Normal("b") * np.arange(8.0)), rates(5)),
        observed=COUNTS.reshape(8, 5),
    ),
}


@pytest.mark.parametrize("name", [*PER_ROW, *OTHERS])
def test_read_as_it_is_written(name):
    with pm.Model() as model:
        (PER_ROW | OTHERS)[name]()
    check_density(model, read_model(model))


def test_value_for_each_row_that_is_made_of_data():
    """It is no coefficient: each evaluation of it would read all rows."""
    with pm.Model() as model:
        pm.Poisson("y", pm.Normal("b") ** 2 * EXPOSURE + rates(), observed=COUNTS)
    with pytest.raises(ValueError, match="not the exponential function"):
        read_model(model)
