"""How often a search evaluates the model: with effects of groups that takes most of its time."""

from collections import Counter

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.anchor.expanded_density import ExpandedDensity


@pytest.fixture
def evaluations(monkeypatch):
    """Numbers of gradients, and of products with a Hessian, that are asked for."""
    counts = Counter()
    for name in ("__call__", "hessian_times"):
        original = getattr(ExpandedDensity, name)

        def counting(self, *arguments, name=name, original=original):
            counts[name] += 1
            return original(self, *arguments)

        monkeypatch.setattr(ExpandedDensity, name, counting)
    return counts


@pytest.mark.slow
def test_correlated_effects(searches, evaluations):
    """Where the gradient is right on average only, a search ends soon after it gains no more.

    The limits are a tenth above what there are: 139 gradients and 434 products. There were 246 and
    756 with steps to where the gradient vanishes, each refused for a shorter one, and with probes
    that were repeated for each quadratic.
    """
    rng, n, n_groups = np.random.default_rng(2), 20_000, 200
    group, x = rng.integers(0, n_groups, n), rng.normal(size=n)
    own = rng.normal(size=(n_groups, 2)) * [0.8, 0.5]
    log_odds = -0.5 + 0.4 * x + own[group, 0] + own[group, 1] * x
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, shape=2)
        sds = pm.HalfNormal.dist(1.0, shape=2)
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sds)
        z = pm.Normal("z", 0, 1, shape=(n_groups, 2))
        b = z @ chol.T
        eta = mu[0] + b[group, 0] + (mu[1] + b[group, 1]) * x
        pm.Bernoulli("y", logit_p=eta, observed=rng.random(n) < 1 / (1 + np.exp(-log_odds)))
    anchor = searches(model)
    assert anchor.passes <= 4.0
    assert evaluations["__call__"] < 153
    assert evaluations["hessian_times"] < 478
