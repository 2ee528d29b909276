"""Scales of effects written in the centred way: of few rows, whose posterior is a funnel."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from tests.posteriors.test_groups import intercepts_reference, random_intercepts
from tests.support.comparison import assert_matches
from tests.support.steps import drive, sample, step_of

SLOW = pytest.mark.slow
#: Two variables with the effects of five groups.
PARTS = [("a", 2), ("b", 3)]


@pytest.mark.parametrize(
    ("cls", "settings", "n_draws"),
    [
        (FireflyMH, {}, 20_000),
        (FireflyHMC, {}, 20_000),
        pytest.param(FireflyMH, {"kernel": "metropolis", "transitions": 20}, 20_000, marks=SLOW),
        pytest.param(FireflyMH, {"kernel": "joint"}, 60_000, marks=SLOW),
        pytest.param(FireflyMALA, {"transitions": 10}, 40_000, marks=SLOW),
        pytest.param(FireflySlice, {"transitions": 5}, 20_000, marks=SLOW),
        pytest.param(FireflyHMC, {"bound": None, "transitions": 5}, 20_000, marks=SLOW),
    ],
)
def test_small_scales_are_reached(cls, settings, n_draws):
    """Without moves of scales none was below exp(-2.2) in 20,000 draws, where 0.027 are."""
    model, group, y = random_intercepts(True, 5, 22)
    step = step_of(model, cls, **settings)
    draws, stats = drive(step, model.initial_point(), tune=500, draws=n_draws, chains=2)
    assert 0.1 < stats["rescaling_acceptance_probability"].mean() < 0.9
    log_tau, z = draws[..., :1], draws[..., 1:] * np.exp(-draws[..., :1])
    assert (log_tau < -3.2).mean() > 0.002
    for k, reference in enumerate(intercepts_reference(group, y)):
        assert_matches(np.concatenate([log_tau, z[..., k : k + 1]], axis=2), reference)


@pytest.mark.slow
def test_small_scales_that_two_variables_share_are_reached():
    """With moves of the effects of one variable at a time half as often as they should be."""
    _, group, y = random_intercepts(True, 5, 22)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1.0)
        effects = pm.math.concatenate([pm.Normal(name, 0.0, tau, shape=n) for name, n in PARTS])
        pm.Bernoulli("y", logit_p=effects[group], observed=y)
    step = step_of(model, FireflyHMC)
    draws, _ = drive(step, model.initial_point(), tune=500, draws=20_000, chains=2)
    reference = intercepts_reference(group, y)[0]
    z = draws[..., 1:2] * np.exp(-draws[..., :1])
    assert_matches(np.concatenate([draws[..., :1], z], axis=2), reference)
    assert (draws[..., 0] < -3.2).mean() > 0.006


def log_scale_model():
    """The same funnel, with its scale as a logarithm: not one that is found."""
    rng = np.random.default_rng(7)
    group = np.concatenate([np.arange(5), rng.integers(0, 5, 17)])
    with pm.Model() as model:
        tau = pm.Normal("log_tau", 0.0, 1.5)
        effects = pm.Normal("a", 0.0, pm.math.exp(tau), shape=5)
        pm.Bernoulli("y", logit_p=effects[group], observed=rng.integers(0, 2, 22))
    return model


@pytest.mark.parametrize("found", [True, False])
def test_a_chain_that_misses_small_scales_says_so(found, caplog):
    model = random_intercepts(True, 5, 22)[0] if found else log_scale_model()
    step = step_of(model, FireflyHMC)
    idata = sample(model, step, draws=2000, tune=500, chains=4)
    said = [each for each in caplog.messages if "tau" in each and "is smallest, its" in each]
    assert bool(said) != found
    assert np.isfinite(idata.sample_stats["rescaling_acceptance_probability"]).all() == found
