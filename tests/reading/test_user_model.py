"""A step reads a model and leaves it as it is."""

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.scaled_effects import find_shared_scales
from tests.composed.models import composed

RNG = np.random.default_rng(2)
N = 40
GROUP = RNG.integers(0, 5, N)
X = RNG.normal(size=N)


def correlated():
    sds = pm.Exponential.dist(1.0)
    chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sds)
    a = pm.MvNormal("a", pm.Normal("m", shape=2), chol=chol, shape=(5, 2))
    return a[GROUP, 0] + a[GROUP, 1] * X


def walk():
    start = pm.Normal.dist(0.0, 1.0)
    scale = pm.HalfNormal("scale")
    return pm.GaussianRandomWalk("w", sigma=scale, init_dist=start, steps=4)[GROUP]


def simplex():
    return pm.Normal("b") * pm.Dirichlet("p", np.ones(5))[GROUP]


@pytest.mark.parametrize("predictor", [correlated, walk, simplex])
@pytest.mark.slow_cases("correlated", "simplex")
def test_nothing_is_rewritten_in_place(searches, predictor):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=predictor(), observed=RNG.integers(0, 2, N))
    _check(searches, model)


@pytest.mark.slow
def test_nor_where_scales_are_looked_for():
    """What simplifies covariances, by itself."""
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=correlated(), observed=RNG.integers(0, 2, N))

    def look(model):
        layout = Layout.of(model.value_vars, model.initial_point())
        assert len(find_shared_scales(model, model.value_vars, layout).scale)

    _check(look, model)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_nor_in_composed_models(searches, seed):
    _check(searches, composed(seed).model)


def _check(searches, model):
    variables = [*model.basic_RVs, *model.potentials, *model.deterministics]
    before = pytensor.dprint(variables, file="str")
    searches(model)
    assert pytensor.dprint(variables, file="str") == before
