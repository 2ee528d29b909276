"""Models in which other steps sample some of the variables."""

import numpy as np
import pymc as pm
import pytest
from pytensor.raise_op import Assert

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Taylor, UnsupportedModelError, report
from tests.support.comparison import assert_matches, quadrature
from tests.support.data import logistic_rows
from tests.support.models import logistic_posterior
from tests.support.steps import sample


def hyper_model():
    X, y = logistic_rows(40, [-0.5])
    with pm.Model() as model:
        log_tau = pm.Normal("log_tau", 0.0, 1.0)
        beta = pm.Normal("beta", 0.0, pm.math.exp(log_tau), shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)

    def log_density(points):  # (log_tau, beta)
        log_tau, beta = points.T
        likelihood = logistic_posterior(X, y, np.inf)(beta[:, None])
        return likelihood - 0.5 * log_tau**2 - log_tau - 0.5 * (beta * np.exp(-log_tau)) ** 2

    return model, quadrature(log_density, [-8.0, -8.0], [8.0, 8.0])


@pytest.mark.filterwarnings("ignore:vars leaves out")
@pytest.mark.parametrize(
    "bound",
    [JaakkolaJordan(xi=1.5, slack=0.0), pytest.param(None, marks=pytest.mark.slow)],
)
def test_prior_only_variable_of_another_step(bound):
    model, reference = hyper_model()
    with model:
        step = [
            FireflyMH([model["beta"]], bound=bound, transitions=10),
            # Natively, for it is evaluated 100,000 times.
            pm.Slice([model["log_tau"]], compile_kwargs={"mode": "NUMBA"}),
        ]
    idata = sample(model, step, tune=500, draws=2500, chains=2, cores=2)
    draws = np.stack([idata.posterior["log_tau"].values, idata.posterior["beta"].values[..., 0]], 2)
    assert_matches(draws, reference)


@pytest.mark.slow
def test_a_step_for_each_of_two_likelihoods():
    """Each subsamples the rows of its own, the larger and the smaller."""
    rng = np.random.default_rng(0)
    x = 0.4 * rng.normal(size=200)
    y = (rng.random(200) < 1 / (1 + np.exp(1 - x))).astype(int)
    z = rng.poisson(np.exp(-x - 1))[:150]
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0)
        b = pm.Normal("b", 1.5 * a, 0.5)
        pm.Bernoulli("y", logit_p=a * x - 1.0, observed=y)
        pm.Poisson("z", mu=pm.math.exp(b * x[:150] - 1.0), observed=z)
        steps = [FireflyHMC([a], transitions=3), FireflyMH([b], kernel="joint")]
    assert [step.observed for step in steps] == [("y",), ("z",)]
    idata = sample(model, steps, tune=400, draws=8000)

    def log_density(points):
        a, b = points.T
        first, second = a[:, None] * x - 1.0, b[:, None] * x[:150] - 1.0
        likelihood = (y * first - np.logaddexp(0.0, first)).sum(axis=1)
        likelihood += (z * second - np.exp(second)).sum(axis=1)
        return likelihood - 0.5 * a**2 - 2.0 * (b - 1.5 * a) ** 2

    draws = np.stack([idata.posterior["a"].values, idata.posterior["b"].values], axis=2)
    assert_matches(draws, quadrature(log_density, [-5.0, -5.0], [5.0, 5.0]))
    with pytest.raises(ValueError, match="one Firefly step"):
        report(idata)


def test_a_model_that_raises_where_other_variables_are_zero():
    """Nothing is evaluated with values that they do not have."""
    X, y = logistic_rows(40, [-0.5])
    with pm.Model():
        k = pm.DiscreteUniform("k", 1, 5)
        sd = Assert("k must be positive")(1.0 * k, k > 0)
        beta = pm.Normal("beta", 0.0, sd, shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        FireflyMH([beta], kernel="joint")


@pytest.mark.parametrize("cls", [FireflyMH, FireflyHMC])
def test_scales_that_underflow_are_outside_the_support(cls):
    """PyMC replaces its check of sigma > 0 in what it compiles: the density is zero there."""
    X, y = logistic_rows(40, [-0.5])
    with pm.Model():
        tau = pm.HalfNormal("tau", 1.0)
        beta = pm.Normal("beta", 0.0, tau, shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = cls(bound=JaakkolaJordan())
    step.setup_chain(np.random.default_rng(0), 0, 1)
    chain = step.chain
    for log_tau, finite in ((-1.0, True), (-800.0, False)):
        log_density = chain.log_density_at(chain.geometry.standardise(np.array([log_tau, 0.1])))
        assert np.isfinite(log_density) if finite else log_density == -np.inf


def test_another_step_on_the_likelihood_is_refused():
    X, y = logistic_rows(50, [-0.5, 1.0])
    with pm.Model():
        a = pm.Normal("a", 0.0, 1.0)
        b = pm.Normal("b", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=X[:, 0] * a + X[:, 1] * b, observed=y)
        with pytest.raises(UnsupportedModelError, match=r"depends on \['b'\].*add \['b'\] to vars"):
            FireflyMH([a])


@pytest.mark.slow  # what is wrong in a start is enumerated; here it would be an error of 3 %
@pytest.mark.parametrize("kernel", ["joint", "surrogate"])
def test_variable_of_two_steps(kernel):
    """Another step moves theta without z, which is then drawn from its conditional distribution."""
    X, y = logistic_rows(14, [1.2])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 3.0, shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        step = [FireflyMH([beta], bound=Taylor(), kernel=kernel), pm.Metropolis([beta])]
    idata = sample(model, step, tune=1000, draws=60_000, chains=2, cores=2)
    assert_matches(
        idata.posterior["beta"].values, quadrature(logistic_posterior(X, y, 3.0), [-8.0], [12.0])
    )
