"""Tails of posteriors, where bounds have their limits, are visited as often as they ought to be."""

import functools
import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_flymc import (
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ScaledTaylor,
    Taylor,
    weighted,
)
from pymc_flymc.bounds import TaylorInParts
from pymc_flymc.kernels.layout import ROW
from tests.support.steps import step_of
from tests.support.tails import by_quadrature, chain_draws, errors_off, log_density_of

N = 14
X = np.linspace(-1.5, 1.5, N)
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def line(b):
    """Predictor with an intercept and a slope, and the coefficients that data are drawn with."""
    return b[0] + b[1] * X if isinstance(b, np.ndarray) else b[0] + X * b[1]


def coefficients(n=2):
    return pm.Normal("b", 0.0, 1.5, shape=n)


def constant(value):
    """Predictor that is the same for all rows."""
    return np.ones(N) * value


RNG = np.random.default_rng(5)
MEAN = np.exp(0.8 + 0.5 * X)
COUNTS = RNG.poisson(MEAN)
POSITIVE = 1 + RNG.poisson(MEAN)
ZEROS = np.where(RNG.random(N) < 0.3, 0, COUNTS)
BINARY = (RNG.random(N) < 0.5 + 0.2 * X).astype(int)
TIMES = MEAN * RNG.exponential(size=N)
SHARES = RNG.beta(2.0, 2.0, size=N)
SUCCESSES = RNG.binomial(9, SHARES)


def probit():
    pm.Bernoulli("y", p=pm.math.invprobit(line(coefficients())), observed=BINARY)


def cloglog():
    pm.Bernoulli("y", p=1.0 - exp(-exp(line(coefficients()))), observed=BINARY)


def poisson():
    pm.Poisson("y", mu=exp(line(coefficients())), observed=COUNTS)


def poisson_weighted():
    weights = np.linspace(0.2, 2.0, N)
    weighted("y", pm.Poisson.dist(exp(line(coefficients()))), weights, observed=COUNTS)


def exponential():
    pm.Exponential("y", scale=exp(line(coefficients())), observed=TIMES)


def weibull():
    distribution = pm.Weibull.dist(1.5, exp(line(coefficients())))
    pm.Censored("y", distribution, lower=None, upper=4.0, observed=np.minimum(TIMES, 4.0))


def gamma():
    eta = line(coefficients())
    pm.Gamma("y", alpha=2.5, beta=2.5 / exp(eta), observed=TIMES)


def gamma_free():
    shape = pm.HalfNormal("k", 2.0)
    pm.Gamma("y", alpha=shape, beta=shape / exp(constant(coefficients(1)[0])), observed=TIMES)


def weibull_free():
    pm.Weibull("y", pm.HalfNormal("k", 2.0), exp(constant(coefficients(1)[0])), observed=TIMES)


def zero_inflated():
    b = coefficients()
    pm.ZeroInflatedPoisson("y", psi=sigmoid(constant(b[0])), mu=exp(constant(b[1])), observed=ZEROS)


def zero_inflated_binomial():
    b, y = coefficients(), np.where(RNG.random(N) < 0.4, 0, SUCCESSES)
    p = sigmoid(constant(b[1]))
    pm.ZeroInflatedBinomial("y", psi=sigmoid(constant(b[0])), n=9, p=p, observed=y)


def zero_inflated_free():
    b, alpha = coefficients(), pm.Gamma("alpha", 2.0, 1.0)
    psi, mean = sigmoid(constant(b[0])), exp(constant(b[1]))
    pm.ZeroInflatedNegativeBinomial("y", psi=psi, mu=mean, alpha=alpha, observed=ZEROS)


def truncated():
    pm.Truncated("y", pm.Poisson.dist(exp(line(coefficients()))), lower=1, observed=POSITIVE)


def truncated_negative_binomial():
    distribution = pm.NegativeBinomial.dist(mu=exp(line(coefficients())), alpha=3.0)
    pm.Truncated("y", distribution, lower=1, observed=POSITIVE)


def truncated_free():
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    distribution = pm.NegativeBinomial.dist(mu=exp(constant(coefficients(1)[0])), alpha=alpha)
    pm.Truncated("y", distribution, lower=1, observed=POSITIVE)


def beta():
    b = coefficients()
    pm.Beta("y", mu=sigmoid(constant(b[0])), nu=exp(constant(b[1])), observed=SHARES)


def beta_binomial():
    b = coefficients()
    mean, size = sigmoid(constant(b[0])), exp(constant(b[1]))
    shapes = dict(alpha=size * mean, beta=size * (1.0 - mean))
    pm.BetaBinomial("y", n=9, **shapes, observed=SUCCESSES)


def groups(slope=None):
    """Predictor with an effect for each of two groups, and a slope."""
    slope = pm.Normal("slope", 0.0, 1.5) if slope is None else slope
    return pm.Normal("a", 0.0, 1.5, shape=2)[np.arange(N) % 2] + X * slope


def poisson_groups():
    pm.Poisson("y", mu=exp(groups()), observed=COUNTS)


def probit_groups():
    pm.Bernoulli("y", p=pm.math.invprobit(groups()), observed=BINARY)


def cloglog_groups():
    """Effects alone."""
    pm.Bernoulli("y", p=1.0 - exp(-exp(groups(0.0))), observed=BINARY)


FAMILIES = {
    each.__name__: each
    for each in (
        probit,
        cloglog,
        poisson,
        poisson_weighted,
        exponential,
        weibull,
        gamma,
        gamma_free,
        weibull_free,
        zero_inflated,
        zero_inflated_binomial,
        zero_inflated_free,
        truncated,
        truncated_negative_binomial,
        truncated_free,
        beta,
        beta_binomial,
    )
}
STEPS = {
    "metropolis": (FireflyMH, {"kernel": "metropolis"}),
    "trajectories": (FireflyMH, {"kernel": "hamiltonian"}),
    "hmc": (FireflyHMC, {}),
    "mala": (FireflyMALA, {}),
    "slice": (FireflySlice, {}),
    "slice-random": (FireflySlice, {"direction": "random"}),
    "joint": (FireflyMH, {"kernel": "joint"}),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}),
}
CONDITIONAL = [kind for kind in STEPS if kind not in ("joint", "surrogate")]
GROUPS = {each.__name__: each for each in (poisson_groups, probit_groups, cloglog_groups)}
#: Where a bound with a jump at its limit cut tails off (and in "cloglog", of the slow suite).
QUICK = [("exponential", "metropolis")]
CASES = [
    pytest.param(*each, marks=() if each in QUICK else pytest.mark.slow)
    for each in (*itertools.product(FAMILIES, STEPS), *itertools.product(GROUPS, CONDITIONAL))
]


@functools.cache
def reference(family):
    """Model, its log density, and the integrals."""
    with pm.Model() as model:
        (FAMILIES | GROUPS)[family]()
    log_density, n = log_density_of(model), sum(v.size for v in model.initial_point().values())
    return model, log_density, by_quadrature(log_density, n)


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_tails_by_quadrature(family, kind):
    """The share beyond the contour that holds 0.1 %, means and variances."""
    model, log_density, posterior = reference(family)
    cls, settings = STEPS[kind]
    if family in GROUPS:
        settings = settings | {"bound": TaylorInParts(2)}
    step = step_of(model, cls, **settings)
    assert isinstance(step.bounds[0], TaylorInParts if family in GROUPS else Taylor | ScaledTaylor)
    draws, _ = chain_draws(step, model, 80_000)
    share, off = errors_off(draws, log_density, posterior)
    assert np.all(np.abs(off) < allowed(len(off))), (share, off)


@pytest.mark.slow
def test_conditional_updates_reach_far_tails():
    """Of a category without counts: what a chain's excursions leave is judged by other chains."""
    first = np.arange(N) % 3 > 0
    with pm.Model() as model:
        eta = np.column_stack([first, ~first]) @ pm.Normal("b", 0.0, 3.0, shape=2)
        pm.Poisson("y", mu=exp(eta), observed=np.where(first, COUNTS, 0))
        step = FireflyHMC(bound=Taylor())
    posterior = by_quadrature(log_density_of(model), 2)
    draws = np.stack([chain_draws(step, model, 10_000, seed=seed)[0] for seed in range(8)])
    assert np.isinf(step.target.data.rows.constants[~first, ROW.near]).all()  # kept bright
    for x, expected in (
        (draws, posterior.mean),
        ((draws - posterior.mean) ** 2, posterior.variance),
    ):
        means = x.mean(axis=1)
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
        limit = stats.t.isf(0.5 * 0.01 / 4, len(means) - 1)
        assert np.all(np.abs(means.mean(axis=0) - expected) < limit * error)


def allowed(n_numbers):
    """Monte Carlo errors that one of all comparisons of this module is off in 1 % of runs."""
    return stats.norm.isf(0.5 * 0.01 / (n_numbers * len(CASES)))
