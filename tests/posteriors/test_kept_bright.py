"""Rows that are kept bright: of a level without events, whose effect only the prior holds.

Far out in its prior the posterior is nothing like its Gaussian approximation, and the rates of the
level's rows are beyond all measure. All other rows say almost exactly what all else is.
"""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from pymc.math import exp
from scipy import stats

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from pymc_flymc.kernels.layout import ROW
from tests.support.steps import step_of
from tests.support.tails import chain_draws
from tests.sweep.comparison import compare
from tests.sweep.reference import Posterior

N, OF_LEVEL = 20_000, 30


@cache
def problem(sd):
    """Return the model with a prior of a width, and the posterior of the effect."""
    rng = np.random.default_rng(0)
    x, level = rng.normal(size=N), np.arange(N) < OF_LEVEL
    y = np.where(level, 0, rng.poisson(np.exp(0.5 + 0.2 * x)))
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, sd)
        a, b = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, 5.0)
        pm.Poisson("y", mu=exp(a + b * x + effect * level), observed=y)
    # The others are known to a hundredth, which moves the effect by a thousandth of its sd.
    axis = np.linspace(-8.0 * sd, 10.0, 4001)
    expected = np.exp(0.5 + 0.2 * x[level]).sum()
    return model, Posterior([axis], -0.5 * (axis / sd) ** 2 - expected * np.exp(axis))


def kept_bright(step):
    (rows,) = step.target.data.parts
    return np.isinf(rows.constants[:, ROW.near])


# The wider the prior, the steeper the wall on the other side, where the rows are.
@pytest.mark.parametrize(
    ("cls", "sd"),
    [
        (FireflyMH, 10.0),
        pytest.param(FireflyHMC, 30.0, marks=pytest.mark.slow),
        pytest.param(FireflyMALA, 30.0, marks=pytest.mark.slow),
        pytest.param(FireflySlice, 10.0, marks=pytest.mark.slow),
        pytest.param(FireflyMH, 30.0, marks=pytest.mark.slow),
        pytest.param(FireflyHMC, 10.0, marks=pytest.mark.slow),
        pytest.param(FireflyMALA, 10.0, marks=pytest.mark.slow),
        pytest.param(FireflySlice, 30.0, marks=pytest.mark.slow),
    ],
)
def test_effect_of_a_level_without_events(cls, sd):
    model, posterior = problem(sd)
    step = step_of(model, cls)
    # A surrogate treats them exactly.
    exact = step.target.data.exact
    assert OF_LEVEL <= (kept_bright(step).sum() if exact is None else len(exact.X)) < 2 * OF_LEVEL
    draws = [chain_draws(step, model, 10_000, transitions=3, seed=seed)[0] for seed in range(2)]
    found = compare(np.stack(draws)[..., :1], posterior)
    assert found.long
    assert found.n_effective > 2000
    z = np.array(list(found.z.values()))
    assert np.abs(z).max() < stats.norm.isf(0.5 * 0.001 / len(z)), found.z
