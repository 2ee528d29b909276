"""A likelihood from outside the package, as the documentation shows it."""

import re
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.likelihoods import LIKELIHOODS, BernoulliLogit
from tests.support.comparison import assert_matches, quadrature
from tests.support.steps import drive

PAGE = Path(__file__).parents[2] / "docs" / "own_likelihood.md"
RNG = np.random.default_rng(0)
BINARY = RNG.integers(0, 2, 300)


@pytest.fixture
def page():
    """Definitions of the documentation's page; what it registers is taken back."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    before = list(LIKELIHOODS)
    names: dict = {}
    for block in blocks[:2]:
        exec(compile(block, str(PAGE), "exec"), names)
    yield names
    LIKELIHOODS[:] = before


def test_durations_of_the_documentation(page):
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(40), rng.normal(size=40)])
    y = rng.exponential(np.exp(X @ [0.3, 0.8]))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Exponential("y", lam=pm.math.exp(-(X @ beta)), observed=y)
        step = FireflyMH(transitions=30)
    assert isinstance(step.target.parts[0].likelihood, page["ExponentialLog"])

    def log_density(points):
        eta = points @ X.T
        return np.sum(-eta - y * np.exp(-eta), axis=1) - 0.5 * np.sum(points**2, axis=1)

    draws, _ = drive(step, model.initial_point(), tune=300, draws=4000, chains=2)
    assert_matches(draws, quadrature(log_density, [-6, -6], [6, 6]))
    # Other variables are still read by the families that know them.
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y > 1.0)
        assert isinstance(FireflyMH().target.parts[0].likelihood, BernoulliLogit)


def test_likelihood_without_a_bound(page):
    class Rough:
        """All that a likelihood must have, and no limit on its derivatives."""

        def __getattr__(self, name):
            if name in ("derivative_bound", "growth"):
                raise AttributeError(name)
            return getattr(page["ExponentialLog"](), name)

    LIKELIHOODS.insert(0, Rough())
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0)
        pm.Exponential("y", scale=pm.math.exp(beta * np.ones(300)), observed=1.0 + BINARY)
        with pytest.raises(ValueError, match="no bound of this package is one on exponential-log"):
            FireflyMH()
