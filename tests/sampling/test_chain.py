"""A chain takes over values of variables of other step methods."""

import functools

import numpy as np
import pymc as pm
import pytest
from pytensor.raise_op import Assert

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice, JaakkolaJordan, Taylor
from pymc_flymc.kernels.layout import POWERS, ROW
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import begin

THETA = np.array([-0.4, 0.7])
#: Logs of the prior's standard deviation: values of the other step's variable.
BEFORE, AFTER, UNDEFINED = np.array([0.3]), np.array([-0.6]), np.array([50.0])
#: By kernel, a step with it.
STEPS = {
    "joint": functools.partial(FireflyMH, bound=Taylor(), kernel="joint"),
    "surrogate": functools.partial(FireflyMH, bound=Taylor(), kernel="surrogate"),
    "metropolis": functools.partial(FireflyMH, bound=JaakkolaJordan()),
    "hamiltonian": functools.partial(FireflyHMC, bound=JaakkolaJordan()),
    "slice": functools.partial(FireflySlice, bound=JaakkolaJordan()),
}


@pytest.fixture(scope="module")
def sampler_of():
    """``sampler_of(kernel)`` builds what makes chains of one of `STEPS`, once."""
    X, y = logistic_rows(60, [-0.5, 0.8])

    @functools.cache
    def sampler(kernel):
        with pm.Model():
            log_sd = pm.Normal("log_sd", 0.0, 1.0)
            sd = Assert("log_sd must be below 9")(pm.math.exp(log_sd), log_sd < 9.0)
            beta = pm.Normal("beta", 0.0, sd, shape=2)
            pm.Bernoulli("y", logit_p=X @ beta, observed=y)
            step = STEPS[kernel]([beta])
        assert step.adaptation.spec.name == kernel
        return step.sampler

    return sampler


def chain_at(sampler, others, theta=THETA):
    """Return a chain that has started there, given values of the other step's variable."""
    chain = sampler.new_chain()
    chain.set_others(others)
    assert np.isfinite(chain.start_at(np.random.default_rng(0), theta))
    return chain


def log_prior(log_sd, theta=THETA):
    """Log prior density of parameters and the other step's variable, less a constant."""
    return -0.5 * np.sum((theta * np.exp(-log_sd)) ** 2) - len(theta) * log_sd - 0.5 * log_sd**2


def log_density_of(chain):
    """Log prior and collapsed bounds at a chain's parameters, given the values that it has."""
    return chain.target.density(chain.state.theta, chain.statistics, np.empty_like(chain.state.w))


def log_weight_of(chain):
    """Log of the augmented density over that of a joint proposal, by the definitions of both."""
    state, index = chain.state, chain.bright.index[: chain.n_bright]
    constants = chain.target.data.parts[0].constants
    near, beyond = state.w[len(THETA) + POWERS.near], state.w[len(THETA) + POWERS.beyond]
    rates = constants[:, ROW.near] * near + constants[:, ROW.beyond] * beyond
    is_bright = np.isin(np.arange(len(rates)), index)
    log_density = log_density_of(chain) - rates[~is_bright].sum()
    log_density += chain.bright.log_factor[: chain.n_bright].sum()
    log_proposal = -0.5 * np.sum(state.v**2) - rates[~is_bright].sum()
    log_proposal += np.log(-np.expm1(-rates[is_bright])).sum()
    return log_density - log_proposal


def assert_same(saved, expected):
    """Check that two states are the same, to the last bit."""
    for name in ("v", "theta", "w", "log_density", "log_weight", "others", "bright", "log_factor"):
        np.testing.assert_array_equal(saved[name], expected[name], err_msg=name)


def refuse(*arguments):
    raise AssertionError("there is nothing to evaluate")


@pytest.mark.filterwarnings("ignore:vars leaves out")
@pytest.mark.parametrize("kernel", STEPS)
def test_density_given_others_is_that_of_a_chain_that_starts_with_them(sampler_of, kernel):
    chain, fresh = chain_at(sampler_of(kernel), BEFORE), chain_at(sampler_of(kernel), AFTER)
    before = log_density_of(chain)
    chain.state.w[:] = np.nextafter(chain.state.w, np.inf)  # as rounding may have left them
    w = chain.state.w.copy()
    chain.set_others(AFTER)
    assert chain.state.log_density[0] == pytest.approx(log_density_of(fresh), rel=1e-12)
    if kernel != "surrogate":  # which adds its exact rows as it begins
        assert chain.state.log_density[0] == pytest.approx(fresh.state.log_density[0], rel=1e-12)
    np.testing.assert_array_equal(chain.statistics, [*chain.target.statistics, *AFTER])
    np.testing.assert_array_equal(chain.others, AFTER)
    # Coefficients stay those of the bright rows' factors.
    np.testing.assert_array_equal(chain.state.w, w)
    change = (log_prior(AFTER) - log_prior(BEFORE)).item()
    assert chain.state.log_density[0] - before == pytest.approx(change, rel=1e-9)


@pytest.mark.parametrize("kernel", STEPS)
def test_draws_given_others_are_those_of_a_chain_that_starts_with_them(sampler_of, kernel):
    chain, fresh = chain_at(sampler_of(kernel), BEFORE), chain_at(sampler_of(kernel), AFTER)
    chain.set_others(AFTER)
    state = chain.save() | {"log_density": float(fresh.state.log_density[0])}
    fresh.restore(state)
    for each in (chain, fresh):
        each.advance(np.random.default_rng(1), 5, 0.0)
    np.testing.assert_allclose(chain.state.theta, fresh.state.theta, rtol=1e-12)
    assert not np.array_equal(chain.state.theta, THETA)
    assert chain.state.log_density[0] == pytest.approx(fresh.state.log_density[0], rel=1e-12)
    np.testing.assert_array_equal(chain.save()["bright"], fresh.save()["bright"])


@pytest.mark.parametrize("kernel", STEPS)
def test_log_weight_given_others(sampler_of, kernel):
    """That of the joint kernel includes the log density; that of the surrogate, which does not."""
    chain = chain_at(sampler_of(kernel), BEFORE)
    before = chain.state.log_weight[0]
    if kernel == "joint":
        assert before == pytest.approx(log_weight_of(chain), rel=1e-12)
    chain.set_others(AFTER)
    expected = log_weight_of(chain) if kernel == "joint" else before
    assert chain.state.log_weight[0] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kernel", STEPS)
def test_unchanged_others_change_nothing(sampler_of, kernel, monkeypatch):
    chain = chain_at(sampler_of(kernel), BEFORE)
    expected, statistics = chain.save(), chain.statistics.copy()
    monkeypatch.setattr(chain.target, "density", refuse)
    chain.set_others(BEFORE.copy())
    assert_same(chain.save(), expected)
    np.testing.assert_array_equal(chain.statistics, statistics)


@pytest.mark.parametrize("kernel", STEPS)
def test_others_for_which_the_density_raises_are_not_taken_over(sampler_of, kernel):
    chain = chain_at(sampler_of(kernel), BEFORE)
    expected, statistics = chain.save(), chain.statistics.copy()
    with pytest.raises(AssertionError, match="log_sd must be below 9"):
        chain.set_others(UNDEFINED)
    assert_same(chain.save(), expected)
    np.testing.assert_array_equal(chain.statistics, statistics)
    # So the same values are refused again, and others are taken over as ever.
    with pytest.raises(AssertionError, match="log_sd must be below 9"):
        chain.set_others(UNDEFINED)
    chain.set_others(AFTER)
    np.testing.assert_array_equal(chain.others, AFTER)


def test_before_a_chain_starts_nothing_is_evaluated(sampler_of, monkeypatch):
    """It has no parameters yet, at which the model's graph may raise."""
    chain = sampler_of("metropolis").new_chain()
    monkeypatch.setattr(chain.target, "density", refuse)
    chain.set_others(AFTER)
    np.testing.assert_array_equal(chain.others, AFTER)
    np.testing.assert_array_equal(chain.statistics[-1:], AFTER)


def test_without_variables_of_other_steps_nothing_is_evaluated(monkeypatch):
    model = logistic_model(*logistic_rows(60, [-0.5, 0.8]))
    with model:
        step = FireflyMH(bound=JaakkolaJordan())
    step.step(begin(step, model))
    monkeypatch.setattr(step.chain.target, "density", refuse)
    step.chain.set_others(np.zeros(0))
