"""A likelihood from outside the package, as the documentation shows it."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import LogisticRV

from pymc_flymc import FireflyMH
from pymc_flymc.graphs.tools import evaluate, known_length
from pymc_flymc.likelihoods import LIKELIHOODS, BernoulliLogit
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.reading.model import read_model
from pymc_flymc.steps.setup import read
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
    for block in blocks[:3]:
        exec(compile(block, str(PAGE), "exec"), names)
    yield names
    LIKELIHOODS[:] = before


@pytest.mark.slow
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


def test_bound_of_the_documentation(page):
    """It holds, as the page checks, and leaves rows of all groups bright."""
    (block,) = re.findall(
        r"```python\n(from [^`]*class Untuned.*?)```", PAGE.read_text(), re.DOTALL
    )
    exec(compile(block, str(PAGE), "exec"), page)
    group = np.arange(300) % 3
    with pm.Model():
        effects = pm.Normal("a", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", logit_p=effects[group], observed=BINARY)
        reading = read(pm.modelcontext(None), None, None, None, "auto")
    (problem,) = reading.problems
    prepared = page["Untuned"]().prepare(problem, None)
    assert prepared.bright.sum() == pytest.approx(page["Untuned"]().expected_rows(problem, 1))


def test_limits_of_the_documentation(page):
    """Those that are computed are those that are written down."""
    computed, written = page["ExponentialLog"](), page["OfOwnLimits"]()
    assert computed.growth == written.growth
    low, y = np.linspace(-3.0, 3.0, 7), np.arange(1.0, 8.0)
    for order, high in ((3, low), (3, low + 1.0), (4, low + 1.0)):
        ours, own = (each.derivative_bound(order, low, high, y) for each in (computed, written))
        np.testing.assert_allclose(ours, own, rtol=1e-9)


@pytest.mark.parametrize("columns", [1, 2])
def test_observed_values_are_finite(columns):
    """With constants of rows or without."""
    values = np.ones((5, columns))
    values[3, -1] = np.nan
    with pytest.raises(ValueError, match="y has 1 values that are not finite, first in row 3"):
        SmoothFamily().read_observed(values if columns > 1 else values[:, 0], "y")


def test_likelihood_without_a_bound(page):
    class Rough:
        """All that a likelihood must have, and no limit on its derivatives."""

        def __getattr__(self, name):
            if name in ("derivative_bound", "growth"):
                raise AttributeError(name)
            return getattr(page["ExponentialLog"](), name)

        def read(self, rv):
            return replace(page["ExponentialLog"]().read(rv), likelihood=self)

    LIKELIHOODS.insert(0, Rough())
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0)
        pm.Exponential("y", scale=pm.math.exp(beta * np.ones(300)), observed=1.0 + BINARY)
        with pytest.raises(ValueError, match="no bound of this package is one on exponential-log"):
            FireflyMH()
        FireflyMH(bound=None)  # as the message says


@dataclass(frozen=True)
class Levels:
    """Ordered levels of a scale, with as many cutpoints as the model has, and a fixed slope."""

    nuisances: tuple[str, ...] = ()
    slope: float = 1.0
    missing: int = 0
    name = "levels"
    n_predictors = 1
    row_data = ()

    def matches(self, rv):
        return isinstance(rv.owner.op, LogisticRV)

    def read(self, rv):
        cuts, slope = rv.owner.op.dist_params(rv.owner)
        (cuts,) = [v for v in ancestors([cuts]) if v.name == "cuts"]
        n = known_length(cuts, 0)
        family = replace(
            self, nuisances=tuple(f"cutpoint {i}" for i in range(n)), slope=evaluate(slope).item()
        )
        return RowParameters(family, cuts[0], [cuts[i] for i in range(n - self.missing)])

    def read_observed(self, values, name):
        return values

    def log_likelihood(self, arguments, y):
        return -self.slope * sum(arguments) * y


@pytest.mark.parametrize("missing", [0, 1])
def test_family_of_which_the_model_decides(monkeypatch, missing):
    """Number of nuisance parameters and a constant are read; a family that contradicts itself is
    refused."""
    for module in ("model", "observed_rows"):
        families = [Levels(missing=missing)]
        monkeypatch.setattr(f"pymc_flymc.reading.{module}.LIKELIHOODS", families)
    with pm.Model() as model:
        n_cuts = pm.Data("points", np.arange(3.0)).shape[0]
        cuts = pm.Normal("cuts", 0.0, 1.0, shape=n_cuts)
        pm.Logistic("y", cuts.sum() * np.ones(4), 2.5, observed=np.arange(4.0))
    if missing:
        with pytest.raises(ValueError, match=r"levels is of \(1, 3\) .* has read \(1, 2\) of 'y'"):
            read_model(model)
        return
    (regression,) = read_model(model).regressions
    assert regression.likelihood.nuisances == ("cutpoint 0", "cutpoint 1", "cutpoint 2")
    assert regression.likelihood.slope == 2.5
    assert regression.design.n_nuisances == 3
