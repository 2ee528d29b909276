"""Scales that no move changes together with their effects, and which of these are warned of."""

import warnings

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC
from pymc_flymc.reading.centred_effects import find_shared_scales
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.unmoved_scales import unmoved_scales


def autoregression(s):
    return pm.AR("a", rho=[0.5], sigma=s, init_dist=pm.Normal.dist(), shape=8)


@pytest.mark.parametrize(
    ("write", "found"),
    [
        (autoregression, ["s"]),
        (lambda s: pm.Normal("a", pm.HalfNormal("m"), s, shape=3), ["s"]),
        (lambda s: pm.GaussianRandomWalk("a", 0.1, s, init_dist=pm.Normal.dist(), steps=5), ["s"]),
        (lambda s: pm.Normal("a", 0.0, pm.math.log1p(pm.math.exp(s)), shape=3), []),
        (lambda s: pm.Normal("a", 0.0, s, shape=3), []),
        (lambda s: pm.Normal("a", s, 1.0, shape=3), []),
    ],
)
def test_scales_that_become_small(write, found):
    with pm.Model() as model:
        write(pm.HalfNormal("s", 1.0))
    layout = Layout.of(model.value_vars, model.initial_point())
    moved = find_shared_scales(model, model.value_vars, layout)
    unmoved = unmoved_scales(model, model.value_vars, layout, moved)
    assert [each.name for each in unmoved] == found
    assert all(each.effects == "a" for each in unmoved)


@pytest.mark.parametrize("n_rows", [48, 4800])
def test_few_rows_are_warned_of(n_rows):
    """With many the scale is known, and no chain comes where it is small."""
    rng = np.random.default_rng(1)
    level = np.arange(n_rows) % 8
    y = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-rng.normal(size=8)[level]))
    with pm.Model():
        effects = autoregression(pm.HalfNormal("s", 1.0))
        pm.Bernoulli("y", logit_p=effects[level], observed=y.astype(int))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            FireflyHMC()
    assert any("small values of 's'" in str(each.message) for each in caught) == (n_rows < 100)
