"""Tails that a thousand proposals do not show: a look far out warns of them."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.out_of_core import feasibility
from pymc_flymc.sampling.proposal_weights import HEAVY
from tests.support.out_of_core import step_elsewhere, written_on_head


def separated(prior):
    """Build a step for outcomes that a predictor separates, which limit its effect on one side."""
    x = np.random.default_rng(3).normal(size=40)
    x = np.sign(x) * (0.3 + np.abs(x))
    data = {"x": x, "y": (x > 0.0).astype(int)}

    def build(data):
        pm.Bernoulli("o", logit_p=prior("b") * data["x"], observed=data["y"])

    return step_elsewhere(written_on_head(data, build, 10), data)


@pytest.mark.parametrize("is_heavy", [True, False])
def test_look_far_out(is_heavy, caplog, monkeypatch):
    """One in a thousand should be beyond 20.9, and of 40,000 draws one in a thousand was beyond 16.

    By chance the pilot run refuses such a posterior, or lets it pass.
    """
    monkeypatch.setattr(feasibility, "_check", lambda *_: None)

    def prior(name):
        return pm.StudentT(name, nu=7.0, sigma=2.5) if is_heavy else pm.Normal(name, 0.0, 3.0)

    separated(prior)
    assert (f"{HEAVY} the proposals" in caplog.text) is is_heavy


def test_what_the_graph_raises_there_is_not_raised(monkeypatch):
    """No draw need come there."""
    target = separated(lambda name: pm.Normal(name, 0.0, 3.0)).target

    def beyond(v):
        raise ArithmeticError("far out")

    monkeypatch.setattr(target.proposer, "at", beyond)
    assert not feasibility.heavier_than_proposals(target, np.zeros(10))
