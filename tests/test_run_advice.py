"""The report's advice on real runs: right on six models where something is off, else silent.

A run of each model is sampled as a user would, four short chains. `test_run_report` has the
thresholds, on draws that were made up.
"""

import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice, report

pytestmark = pytest.mark.slow

N = 20_000


def rng():
    return np.random.default_rng(1)


def run(model, step=FireflyMH, settings=None, **options):
    """Return the advice on a run, and the moves it made."""
    defaults = dict(tune=500, draws=1000, chains=4, cores=1, random_seed=1, progressbar=False)
    with model:
        made = step(**(settings or {}))
        idata = pm.sample(step=made, compute_convergence_checks=False, **defaults | options)
    found = report(idata)
    logging.getLogger("tests").info("%s", found)
    return found.advice


def bernoulli(n, effects, prior_sd=1.0, intercept=-1.0):
    """A logistic regression on normal columns."""
    generator = rng()
    X = generator.normal(size=(n, len(effects)))
    y = generator.random(n) < 1 / (1 + np.exp(-intercept - X @ effects))
    with pm.Model() as model:
        alpha = pm.Normal("alpha", 0, 2)
        beta = pm.Normal("beta", 0, prior_sd, shape=len(effects))
        pm.Bernoulli("y", logit_p=alpha + X @ beta, observed=y)
    return model


def groups(n, n_groups):
    """Random intercepts with a centre, and a free scale."""
    generator = rng()
    group = generator.integers(0, n_groups, n)
    effect = generator.normal(0, 0.5, n_groups)
    y = generator.random(n) < 1 / (1 + np.exp(-effect[group]))
    with pm.Model() as model:
        mu, log_tau = pm.Normal("mu", 0, 1), pm.Normal("log_tau", 0, 1)
        tau = pm.Deterministic("tau", pt.exp(log_tau))
        a = pm.Normal("a", mu, tau, shape=n_groups)
        pm.Bernoulli("y", logit_p=a[group], observed=y)
    return model


def counts():
    generator = rng()
    X = generator.normal(size=(N, 3))
    y = generator.poisson(np.exp(0.5 + X @ [0.2, -0.3, 0.1]))
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha", 0, 2), pm.Normal("beta", 0, 1, shape=3)
        pm.Poisson("y", mu=pm.math.exp(alpha + X @ beta), observed=y)
    return model


def robust():
    generator = rng()
    X = generator.normal(size=(N, 3))
    y = X @ [0.2, -0.3, 0.1] + 0.5 * generator.standard_t(3, size=N)
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha", 0, 2), pm.Normal("beta", 0, 1, shape=3)
        nu, sigma = pm.Gamma("nu", 2, 0.1), pm.HalfNormal("sigma", 1)
        pm.StudentT("y", nu=nu, mu=alpha + X @ beta, sigma=sigma, observed=y)
    return model


def normal():
    generator = rng()
    X = generator.normal(size=(N, 3))
    y = X @ [0.2, -0.3, 0.1] + 0.5 * generator.normal(size=N)
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 1, shape=3), pm.HalfNormal("sigma", 1)
        pm.Normal("y", mu=X @ beta, sigma=sigma, observed=y)
    return model


@pytest.mark.parametrize(
    ("model", "step"),
    [
        (lambda: bernoulli(N, [0.5, -0.3, 0.0]), FireflyMH),
        (lambda: bernoulli(N, [0.5, -0.3, 0.0]), FireflyHMC),
        (counts, FireflyMH),
        (robust, FireflyMH),
        (normal, FireflyMH),
        (lambda: groups(N, 50), FireflyMH),
    ],
    ids=["logistic", "logistic-hmc", "counts", "robust", "normal", "groups"],
)
def test_silent_where_nothing_is_wrong(model, step):
    assert run(model(), step) == ()


def test_a_run_that_is_too_short():
    advice, *_ = run(bernoulli(N, [0.5, -0.3, 0.0]), FireflyHMC, draws=40)
    assert "too few draws of" in advice and "take draws=" in advice


def test_effects_with_a_centre_and_few_rows():
    advice = run(groups(300, 100), FireflyHMC)
    assert any("tau * z" in each for each in advice)


def test_modes_between_which_chains_do_not_move():
    generator = rng()
    x = generator.normal(size=N)
    y = generator.random(N) < 1 / (1 + np.exp(-x))
    with pm.Model() as model:
        root = pm.Normal("root", 0, 1)  # its sign says nothing
        pm.Bernoulli("y", logit_p=x * root**2, observed=y)
    starts = [{"root": np.array(sign)} for sign in (-1.0, -1.0, 1.0, 1.0)]
    advice, *_ = run(model, initvals=starts)
    assert "settled in different places, by root" in advice and "several modes" in advice


def test_few_rows_for_many_columns():
    """Slices along every coordinate evaluate the bright rows more often than NUTS does all."""
    advice = run(bernoulli(200, np.zeros(20)), FireflySlice)
    assert any("leave out step=" in each for each in advice)


def test_tails_that_proposals_lack():
    """A level without events, whose effect has its prior's tail, by independent proposals alone."""
    generator = rng()
    x, level = generator.normal(size=200), np.arange(200) < 14
    y = np.where(level, 0, generator.poisson(np.exp(1 + 0.2 * x)))
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha", 0, 2), pm.Normal("beta", 0, 1)
        effect = pm.Normal("effect", 0, 3)
        mu = pm.math.exp(alpha + beta * x + effect * level)
        pm.Poisson("y", mu=mu, observed=y)
    advice = run(model, settings={"kernel": "joint", "proposal": "independent"})
    assert any("Pareto k" in each or "was stuck" in each for each in advice)


def test_a_density_that_is_not_known_everywhere():
    model = bernoulli(N, [0.5, -0.3, 0.0])
    with model:
        # Half of the posterior has no logarithm.
        pm.Potential("half", pt.log(0.5 - model["beta"][0]))
    advice = run(model)
    assert any("NaN or infinite at" in each for each in advice)
