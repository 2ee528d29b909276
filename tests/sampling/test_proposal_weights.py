"""What the weights of proposals show before a chain runs."""

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats

from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.sampling.costs import Costs
from pymc_flymc.sampling.proposal_weights import (
    FEWEST,
    Independence,
    pilot_approximation,
    weigh_joint_moves,
)
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.steps.setup import read
from tests.support.data import logistic_rows
from tests.support.steps import logistic_step


def test_equal_weights_are_independent_draws():
    weighed = Independence.of(np.full(200, -3.0))
    assert weighed.autocorrelation_time == pytest.approx(1.0, abs=1e-12)
    assert not weighed.heavy_tails


def test_autocorrelation_time_of_normal_weights():
    """Against quadrature over log weights N(0, s^2), which in equilibrium are N(s^2, s^2)."""
    s, n = 0.8, 20_000

    def leave(x):  # E min(1, exp(X - x)) for X ~ N(0, s^2)
        below = np.exp(0.5 * s**2 - x) * stats.norm.cdf((x - s**2) / s)
        return below + stats.norm.sf(x / s)

    def mean(of):
        return integrate.quad(lambda x: of(leave(x)) * stats.norm.pdf(x, s**2, s), -9, 12)[0]

    rng = np.random.default_rng(1)
    found = [Independence.of(s * rng.standard_normal(n // 20)) for _ in range(20)]
    values = np.array([each.autocorrelation_time for each in found])
    expected = mean(lambda p: (2 - p) / p)
    # The bias of a ratio over 1,000 weights is of order 1/1,000 of it.
    error = values.std(ddof=1) / np.sqrt(20) * 4 + 5e-3 * expected
    assert abs(values.mean() - expected) < error


@pytest.mark.parametrize("scale_is_free", [False, True])
def test_the_approximation_is_weighed_without_rows(scale_is_free):
    """A normal prior leaves nothing to weigh; a free scale makes the posterior a funnel."""
    X, y = logistic_rows(4_000, 6)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0) if scale_is_free else 1.0
        raw = pm.Normal("raw", 0.0, 1.0, shape=6)
        pm.Bernoulli("y", logit_p=X @ (sigma * raw), observed=y)
    found = read(model, None, None, None, "auto")
    (problem,) = found.problems
    weighed = pilot_approximation(expanded_density(found.graph, found.others), problem.anchor)
    assert (weighed.autocorrelation_time > 1.01) == scale_is_free


#: Rows cost the same wherever they are.
ONE_EACH = Costs(seconds=1e-7, bright=1.0, drawn=1.0, evaluation=1.0)


def test_joint_proposals_are_as_many_as_may_be_read():
    X, y = logistic_rows(400)
    _, step = logistic_step(X, y, kernel="joint")
    sampler = Sampler(step.target, step.adaptation, step.sampler.brightness)
    many, few = (
        weigh_joint_moves(sampler, np.empty(0), ONE_EACH, limit) for limit in (np.inf, 0.0)
    )
    assert many != few  # of 1,000 proposals, and of 200
    # Rows are drawn independently, each once at most.
    assert abs(many[1] - few[1]) < 5.0 * np.sqrt(many[1] / FEWEST)
