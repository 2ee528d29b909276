"""Tails that are longer than those of an expansion, looked at before moves are selected."""

import numpy as np
import pymc as pm
from pytensor.raise_op import Assert

from pymc_flymc import FireflyMH
from pymc_flymc.sampling.far_out import rows_in_heavy_tails
from tests.support.data import logistic_rows


def sampler_of(limit=np.inf):
    X, y = logistic_rows(200, [-0.5])
    with pm.Model():
        b = pm.Normal("b", 0.0, 1.0)
        if np.isfinite(limit):
            pm.Potential("potential", Assert("b is too large")(0.0 * b, b < limit))
        pm.Bernoulli("y", logit_p=X[:, 0] * b, observed=y)
        return FireflyMH(kernel="surrogate").sampler


def test_a_concentrated_posterior_has_none():
    assert rows_in_heavy_tails(sampler_of(), np.empty(0), np.inf) is None


def test_what_the_graph_raises_there_is_not_raised():
    """No draw need come there."""
    assert rows_in_heavy_tails(sampler_of(limit=0.05), np.empty(0), np.inf) is None


def test_moves_that_are_asked_for_warn(caplog):
    """A likelihood that is bounded from below: the posterior has the prior's tails."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=20), rng.vonmises(0.0, 0.8, size=20)
    with pm.Model():
        b = pm.Normal("b", 0.0, 5.0)
        pm.VonMises("y", b * x, 0.8, observed=y)
        FireflyMH(kernel="joint", proposal="independent")
    assert "much heavier than the expansion" in caplog.text


def test_moves_that_are_asked_for_do_not_warn_elsewhere(caplog):
    sampler_of()
    assert "much heavier" not in caplog.text
