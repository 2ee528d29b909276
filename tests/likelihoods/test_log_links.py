"""Rates, scales and probabilities that rows look up as they are, or that are one number."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.model import read_model
from tests.support.readings import check_density

N = 30
RNG = np.random.default_rng(7)
X, EXPOSURE = RNG.normal(size=(N, 2)), RNG.uniform(0.5, 2.0, N)
GROUP, OTHER = RNG.permutation(np.arange(N) % 4), RNG.permutation(np.arange(N) % 3)
BINARY, COUNTS = RNG.integers(0, 2, N), RNG.poisson(2.0, N)
POSITIVE, UNIT, TRIALS = RNG.gamma(2.0, size=N), RNG.beta(2.0, 2.0, N), COUNTS + 3
exp = pm.math.exp


def rates(name="rate", shape=4):
    return pm.Gamma(name, 2.0, 1.0, shape=shape)


def probabilities(name="p", shape=4):
    return pm.Beta(name, 2.0, 2.0, shape=shape)


def slopes():
    return X @ pm.Normal("b", shape=2)


def normal_cdf(v):
    return 0.5 + 0.5 * pt.erf(v / pt.sqrt(pt.constant(2.0, dtype="float64")))


#: Observed variables, and the family that each is read as.
MODELS = {
    "probabilities": (
        "bernoulli-logit",
        lambda: pm.Bernoulli("y", p=probabilities()[GROUP], observed=BINARY),
    ),
    "uniform probabilities": (
        "bernoulli-logit",
        lambda: pm.Bernoulli("y", p=pm.Uniform("p", 0, 1, shape=4)[GROUP], observed=BINARY),
    ),
    "one probability": (
        "bernoulli-logit",
        lambda: pm.Bernoulli("y", p=probabilities(shape=None), observed=BINARY),
    ),
    "a choice by data": (
        "bernoulli-logit",
        lambda: pm.Bernoulli(
            "y",
            p=pt.switch(X[:, 0] > 0.0, probabilities("p", None), probabilities("q", None)),
            observed=BINARY,
        ),
    ),
    "a choice between lookups": (
        "bernoulli-logit",
        lambda: pm.Bernoulli(
            "y",
            p=pt.switch(X[:, 0] > 0.0, probabilities("p")[GROUP], probabilities("q", 3)[OTHER]),
            observed=BINARY,
        ),
    ),
    "stacked": (
        "bernoulli-logit",
        lambda: pm.Bernoulli(
            "y",
            p=pt.stack([probabilities("p", None), probabilities("q", None)])[BINARY[::-1]],
            observed=BINARY,
        ),
    ),
    "of two factors": (
        "bernoulli-logit",
        lambda: pm.Bernoulli("y", p=probabilities(shape=(4, 3))[GROUP, OTHER], observed=BINARY),
    ),
    "a ratio": (
        "bernoulli-logit",
        lambda: pm.Bernoulli(
            "y",
            p=(strength := rates())[GROUP] / (strength[GROUP] + strength[(GROUP + 1) % 4]),
            observed=BINARY,
        ),
    ),
    "a ratio to one": (
        "bernoulli-logit",
        lambda: pm.Bernoulli("y", p=1.0 / (1.0 + rates()[GROUP]), observed=BINARY),
    ),
    "a ratio of exponentials": (
        "bernoulli-logit",
        lambda: pm.Bernoulli(
            "y", p=(up := exp(slopes())) / (EXPOSURE * rates()[GROUP] + up), observed=BINARY
        ),
    ),
    "probit": (
        "bernoulli-probit",
        lambda: pm.Bernoulli("y", p=normal_cdf(pm.Normal("a", shape=4))[GROUP], observed=BINARY),
    ),
    "trials": (
        "binomial-logit",
        lambda: pm.Binomial("y", n=TRIALS, p=probabilities()[GROUP], observed=COUNTS % 3),
    ),
    "waits": (
        "geometric",
        lambda: pm.Geometric("y", p=probabilities()[GROUP], observed=COUNTS + 1),
    ),
    "rates": ("poisson-log", lambda: pm.Poisson("y", EXPOSURE * rates()[GROUP], observed=COUNTS)),
    "rates of two factors, and slopes": (
        "poisson-log",
        lambda: pm.Poisson(
            "y",
            pm.HalfNormal("base")
            * rates()[GROUP]
            * EXPOSURE
            * exp(slopes())
            / rates("q", 3)[OTHER],
            observed=COUNTS,
        ),
    ),
    "a product of three": (
        "poisson-log",
        lambda: pm.Poisson("y", pt.mul(rates()[GROUP], EXPOSURE, exp(slopes())), observed=COUNTS),
    ),
    "negative binomial rates": (
        "negative-binomial-free",
        lambda: pm.NegativeBinomial(
            "y", mu=rates()[GROUP], alpha=pm.Exponential("alpha", 1.0), observed=COUNTS
        ),
    ),
    "negative binomial probabilities": (
        "negative-binomial-free",
        lambda: pm.NegativeBinomial(
            "y", n=pm.Exponential("n", 1.0), p=probabilities()[GROUP], observed=COUNTS
        ),
    ),
    "negative binomial ratio": (
        "negative-binomial-free",
        lambda: pm.NegativeBinomial(
            "y",
            n=(n := pm.Exponential("n", 1.0)),
            p=n / (n + EXPOSURE * exp(slopes())),
            observed=COUNTS,
        ),
    ),
    "zeros": (
        "zero-inflated-poisson",
        lambda: pm.ZeroInflatedPoisson(
            "y", psi=probabilities()[GROUP], mu=rates("rate", 3)[OTHER], observed=COUNTS
        ),
    ),
    "scales": (
        "normal-scales",
        lambda: pm.Normal("y", slopes(), rates("sigma")[GROUP], observed=X[:, 0]),
    ),
    "a choice of scales": (
        "normal-scales",
        lambda: pm.Normal(
            "y",
            slopes(),
            pt.switch(X[:, 1] > 0.0, pm.HalfNormal("s"), pm.HalfNormal("t")),
            observed=X[:, 0],
        ),
    ),
    "scales of heavy tails": (
        "student-t-scales",
        lambda: pm.StudentT(
            "y", nu=4.0, mu=slopes(), sigma=rates("sigma")[GROUP], observed=X[:, 0]
        ),
    ),
    "durations": (
        "durations",
        lambda: pm.Exponential("y", rates()[GROUP], observed=POSITIVE),
    ),
    "weibull": (
        "weibull-free",
        lambda: pm.Weibull("y", pm.HalfNormal("alpha"), rates()[GROUP], observed=POSITIVE),
    ),
    "gamma": (
        "gamma-free",
        lambda: pm.Gamma("y", pm.HalfNormal("alpha"), rates()[GROUP], observed=POSITIVE),
    ),
    "beta means": (
        "beta",
        lambda: pm.Beta(
            "y", mu=probabilities()[GROUP], nu=pm.HalfNormal("nu", 10.0), observed=UNIT
        ),
    ),
    "transitions": (
        "softmax",
        lambda: pm.Categorical(
            "y", pm.Dirichlet("p", np.ones((3, 3)))[OTHER[:-1]], observed=OTHER[1:]
        ),
    ),
    "classes": (
        "multinomial",
        lambda: pm.Multinomial(
            "y",
            n=3,
            p=pm.Dirichlet("p", np.ones((4, 3)))[GROUP],
            observed=np.eye(3, dtype=int)[OTHER] + np.eye(3, dtype=int)[::-1][OTHER] + [1, 0, 0],
        ),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_groups_have_is_a_predictor(name):
    family, observe = MODELS[name]
    with pm.Model() as model:
        observe()
    reading = read_model(model)
    assert [each.likelihood.name for each in reading.regressions] == [family]
    check_density(model, reading)


#: Of tables: rates of rows and of columns.
TABLES = {
    "of rows": lambda a, b: a[:, None],
    "of columns": lambda a, b: b[None],
    "of both": lambda a, b: a[:, None] * b,
    "relative": lambda a, b: a[:, None] / b[None, :],
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("shape", [(5, 4), (4, 4)])
def test_rates_of_a_table(name, shape):
    with pm.Model() as model:
        a, b = rates("a", shape[0]), rates("b", shape[1])
        pm.Poisson("y", TABLES[name](a, b), observed=RNG.poisson(2.0, shape))
    check_density(model, read_model(model))


#: What is no lookup of a parameter, though it is made of such lookups.
OTHERS = {
    "product": lambda p, q: p[GROUP] * q[OTHER],
    "ratio of another sum": lambda p, q: p[GROUP] / (q[OTHER] + q[OTHER]),
    "ratio of three": lambda p, q: p[GROUP] / pt.add(p[GROUP], q[OTHER], q[OTHER[::-1]]),
    "choice by a variable": lambda p, q: pt.switch(p[0] > 0.5, p[GROUP], p[GROUP[::-1]]),
    "index of a variable": lambda p, q: p[pt.cast(pt.floor(4.0 * q[OTHER]), "int64")],
}


@pytest.mark.parametrize("name", OTHERS)
def test_functions_of_lookups_are_refused(name):
    with pm.Model() as model:
        p = OTHERS[name](probabilities("p"), probabilities("q", 3))
        pm.Bernoulli("y", p=p, observed=BINARY)
    with pytest.raises(UnsupportedModelError, match="'y': its p is not the logistic function"):
        read_model(model)


def test_shapes_of_another_mean_are_refused():
    with pm.Model() as model:
        p, q, nu = probabilities("p"), probabilities("q", 3), pm.HalfNormal("nu", 10.0)
        pm.Beta("y", alpha=p[GROUP] * nu, beta=(1.0 - q[OTHER]) * nu, observed=UNIT)
    with pytest.raises(UnsupportedModelError, match="'y': its mu is not the logistic function"):
        read_model(model)


def test_probabilities_beyond_one_are_refused():
    with pm.Model() as model:
        pm.Bernoulli("y", p=pm.Uniform("p", 0.0, 2.0, shape=4)[GROUP], observed=BINARY)
    with pytest.raises(UnsupportedModelError, match="priors within 0 and 1, such as"):
        read_model(model)
