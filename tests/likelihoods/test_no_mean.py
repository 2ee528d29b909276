"""Counts at an exposure of zero: a zero is certain there, and all else is impossible."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import weighted
from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density, compare

N = 60
RNG = np.random.default_rng(4)
X = RNG.normal(size=(N, 2))
EXPOSURE = np.where(np.arange(N) % 6 == 2, 0.0, RNG.uniform(0.5, 2.0, N))
COUNTS = RNG.poisson(EXPOSURE)
with np.errstate(divide="ignore"):
    LOG = np.log(EXPOSURE)
WEIGHTS = np.where(np.arange(N) % 6 == 3, 0.0, 1.5)


def mean():
    return EXPOSURE * pm.math.exp(X @ pm.Normal("b", shape=2))


def table():
    """Survival as counts of events by interval, of which subjects pass some only."""
    by_interval = pm.Gamma("rate", 2.0, 1.0, shape=6)
    risk = pt.outer(pm.math.exp(X[:10] @ pm.Normal("b", shape=2)), by_interval)
    pm.Poisson("y", EXPOSURE.reshape(10, 6) * risk, observed=COUNTS.reshape(10, 6))


OBSERVED = {
    "exposure": lambda: pm.Poisson("y", mean(), observed=COUNTS),
    "offset": lambda: pm.Poisson(
        "y", pm.math.exp(X @ pm.Normal("b", shape=2) + LOG), observed=COUNTS
    ),
    "negative binomial": lambda: pm.NegativeBinomial("y", mu=mean(), alpha=2.0, observed=COUNTS),
    "free alpha": lambda: pm.NegativeBinomial(
        "y", mu=mean(), alpha=pm.Gamma("a", 2.0, 1.0), observed=COUNTS
    ),
    "zero-inflated": lambda: pm.ZeroInflatedPoisson("y", psi=0.8, mu=mean(), observed=COUNTS),
    "weighted": lambda: weighted("y", pm.Poisson.dist(mean()), WEIGHTS, observed=COUNTS),
    "table": table,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", OBSERVED)
def test_zero_is_certain(name):
    with pm.Model() as model:
        OBSERVED[name]()
    reading = read_model(model)
    left_out = (EXPOSURE == 0.0) | ((WEIGHTS == 0.0) & (name == "weighted"))
    assert reading.regressions[0].design.n_rows == N - left_out.sum()
    check_density(model, reading)


def test_rows_are_those_of_the_model():
    """Each is compared with its own."""
    with pm.Model() as model:
        OBSERVED["exposure"]()
    reading = read_model(model)
    (part,) = reading.taken[model["y"]].parts
    np.testing.assert_array_equal(part.rows, np.flatnonzero(EXPOSURE))
    compare(model, reading)


def test_other_counts_are_impossible():
    y = COUNTS.copy()
    y[[2, 8]] = 1, 3
    with pm.Model() as model:
        pm.Poisson("y", mean(), observed=y)
    with pytest.raises(ValueError, match=r"mean is zero, .* \(2, first in row 2\)"):
        read_model(model)


def test_exposures_of_all_else_are_positive():
    with pm.Model() as model:
        pm.Exponential("y", scale=mean(), observed=1.0 + COUNTS)
    with pytest.raises(ValueError, match=r"the exposure of .* is 0.0 in row 2; .* positive"):
        read_model(model)
    with pm.Model() as model:
        pm.Poisson("y", -mean(), observed=COUNTS)
    with pytest.raises(ValueError):
        read_model(model)


@pytest.mark.parametrize("family", ["Poisson", "NegativeBinomial", "Binomial"])
def test_psi_of_one_is_named(family):
    settings = {
        "Poisson": lambda e: {"mu": pm.math.exp(e)},
        "NegativeBinomial": lambda e: {"mu": pm.math.exp(e), "alpha": 2.0},
        "Binomial": lambda e: {"n": 20, "p": pm.math.sigmoid(e)},
    }[family]
    with pm.Model() as model:
        parameters = settings(X @ pm.Normal("b", shape=2))
        getattr(pm, f"ZeroInflated{family}")("y", psi=1.0, **parameters, observed=COUNTS)
    with pytest.raises(ValueError, match=r"psi of .* is 1.0; it must be .* write the counts alone"):
        read_model(model)


def test_alternatives_that_are_not_available():
    available = RNG.random((N, 3)) < 0.8
    available[:, 0] = True

    def choices(utility):
        with pm.Model() as model:
            pm.Categorical(
                "y", logit_p=X[:, :1] * pm.Normal("b", shape=3) + utility, observed=np.zeros(N)
            )
        return model

    with np.errstate(divide="ignore"):
        utility = np.log(1.0 * available)
    with pytest.raises(ValueError, match=r"np.where\(available, 0, -1e3\)"):
        read_model(choices(utility))
    model = choices(np.where(available, 0, -1e3))
    check_density(model, read_model(model), choices(utility).compile_logp())
