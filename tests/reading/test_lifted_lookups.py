"""Functions of what rows look up, however they are written, are read as lookups of functions."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import weighted
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.lookups import lifted
from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density

N = 30
RNG = np.random.default_rng(11)
X, T = RNG.normal(size=N), RNG.uniform(0.5, 2.0, N)
GROUP, OTHER = RNG.permutation(np.arange(N) % 4), RNG.permutation(np.arange(N) % 3)
BINARY, COUNTS, NUMBERS = RNG.integers(0, 2, N), RNG.poisson(2.0, N), RNG.normal(size=N)
CLASSES = RNG.permutation(np.arange(N) % 3)


def p(name="p", shape=4):
    return pm.Beta(name, 2.0, 2.0, shape=shape)


def rate(name="rate", shape=4):
    return pm.Gamma(name, 2.0, 1.0, shape=shape)


def effects(name="a", shape=4):
    return pm.Normal(name, 0.0, 1.0, shape=shape)


def bernoulli(p):
    return pm.Bernoulli("y", p=p, observed=BINARY)


def logistic(eta):
    return pm.Bernoulli("y", logit_p=eta, observed=BINARY)


def counted(mu):
    return pm.Poisson("y", mu=mu, observed=COUNTS)


def normal(mu, sigma):
    return pm.Normal("y", mu, sigma, observed=NUMBERS)


def guess():
    return p("guess", None)


def seen_through_a_test():
    """A prevalence of groups, seen through a test's sensitivity and specificity."""
    of_rows, sensitivity, specificity = p()[GROUP], p("se", None), p("sp", None)
    return sensitivity * of_rows + (1.0 - specificity) * (1.0 - of_rows)


def by_names():
    """Sizes of named dimensions are numbers that the graph holds as data."""
    with pm.modelcontext(None):
        pm.modelcontext(None).add_coord("shop", np.arange(4))
        sd, z = pm.HalfNormal("sd", dims="shop"), pm.Normal("z", dims="shop")
    return logistic(sd[GROUP] * z[GROUP])


def in_data():
    group = pm.Data("group", GROUP)
    return bernoulli(1.0 - p()[group] ** 2 * p("q")[group])


def with_weights():
    return weighted("y", pm.Bernoulli.dist(p=1.0 - p()[GROUP]), T, observed=BINARY)


def hurdle():
    psi = 0.1 + 0.9 * p()[GROUP]
    return pm.HurdlePoisson("y", psi, pm.math.exp(effects()[GROUP] ** 2 * X), observed=COUNTS)


MODELS = {
    "the other outcome": lambda: bernoulli(1.0 - p()[GROUP]),
    "guesses": lambda: bernoulli((c := guess()) + (1.0 - c) * p()[GROUP]),
    "guesses and slopes of groups": lambda: bernoulli(
        (c := guess()) + (1.0 - c) * pm.math.sigmoid(effects()[GROUP] - effects("b")[GROUP])
    ),
    "two kinds of tests": lambda: bernoulli(seen_through_a_test()),
    "clipped": lambda: bernoulli(pt.clip(p()[GROUP], 0.3, 0.7)),
    "two factors": lambda: bernoulli(1.0 - p(shape=(4, 3))[GROUP, OTHER]),
    "an index from a constant": lambda: bernoulli(1.0 - p()[pt.constant(GROUP)]),
    "a background": lambda: counted(rate()[GROUP] + rate("background", None)),
    "a background and exposures": lambda: counted(T * (rate()[GROUP] + 0.1)),
    "a share of exposures": lambda: counted(T * (1.0 - p()[GROUP])),
    "a square": lambda: counted(rate()[GROUP] ** 2),
    "a log rate and slopes": lambda: counted(
        pm.math.exp(pt.log(rate()[GROUP]) + X * effects("b", None))
    ),
    "log odds and slopes": lambda: logistic(pm.math.logit(p()[GROUP]) + X * effects("b", None)),
    "scales of effects": lambda: logistic(
        rate()[GROUP] * effects()[GROUP] + X * effects("b", None)
    ),
    "positive slopes": lambda: logistic(effects("b", None) + pm.math.exp(effects()[GROUP]) * X),
    "waves": lambda: normal(pt.cos(effects()[GROUP]), pm.HalfNormal("sigma")),
    "variances": lambda: normal(effects("b", None) * X, pt.sqrt(rate()[GROUP])),
    "variances and errors": lambda: normal(
        effects("b", None) * X, pt.sqrt(rate()[GROUP] ** 2 + 0.3)
    ),
    "classes": lambda: pm.Categorical(
        "y",
        logit_p=pm.math.concatenate(
            [np.zeros((N, 1)), rate("r", (4, 1))[GROUP] * effects("a", (4, 2))[GROUP]], axis=1
        ),
        observed=CLASSES,
    ),
    "a deterministic variable": lambda: bernoulli(1.0 - pm.Deterministic("of_rows", p()[GROUP])),
    "by names": by_names,
    "in data": in_data,
    "with weights": with_weights,
    "hurdle": hurdle,
}


@pytest.mark.parametrize("name", MODELS)
def test_functions_of_lookups_are_lookups(name):
    with pm.Model() as model:
        MODELS[name]()
    check_density(model, read_model(model))


#: Functions of lookups of other elements in each row: what a row has is no lookup.
OTHERS = {
    "by another index": lambda p, q: p[GROUP] * q[OTHER],
    "of another row": lambda p, q: p[GROUP] * p[GROUP[::-1]],
    "of another size": lambda p, q: p[OTHER] * q[OTHER],
    "and data": lambda p, q: p[GROUP] * T,
    "by an index of a variable": lambda p, q: 1.0 - p[pt.cast(3.0 * q[0], "int64") + GROUP * 0],
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_stay_as_they_are(name):
    with pm.Model() as model:
        of_rows = OTHERS[name](p(), p("q", 3))
    assert lifted(of_rows, model.rvs_to_values) is None


def test_what_is_written_is_read_first():
    """A constant beside effects is an offset, and no part of them."""
    with pm.Model() as model:
        logistic(0.5 + effects()[GROUP])
    assert np.all(read_model(model).regressions[0].design.offset == 0.5)


def test_the_refusal_is_that_of_the_model_as_it_is_written():
    with pm.Model() as model:
        bernoulli(1.0 - p()[GROUP] * p("q", 3)[OTHER] * (0.5 + 0.5 * p("r")[GROUP]))
    with pytest.raises(UnsupportedModelError, match="its p is not the logistic function"):
        read_model(model)
