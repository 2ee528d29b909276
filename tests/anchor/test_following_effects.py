"""Effects follow their scales by the shares of their precision that change with these."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc.anchor.following_effects import LEAST_SHARE
from pymc_flymc.steps.setup import read

N, SIZES = 600, (20, 4)
RNG = np.random.default_rng(3)
CODES = [RNG.integers(0, size, N) for size in SIZES]
#: One factor has effects, the other has none.
Y = RNG.normal(RNG.normal(0.0, 3.0, SIZES[0])[CODES[0]], 1.0)


def following_of(effects):
    with pm.Model() as model:
        eta = pm.Normal("mu", 0.0, 1.0)
        for name, codes, size in zip("ab", CODES, SIZES, strict=True):
            scale = pm.LogNormal(f"scale_{name}", np.log(0.2), 0.1)
            eta = eta + effects(name, scale, size)[codes]
        pm.Normal("y", eta, 1.0, observed=Y)
    setup = read(model, None, None, None, "auto")
    return (
        setup.graph.following,
        {
            v.name.split("_log")[0]: place
            for v, place in zip(setup.vars, setup.layout.places, strict=True)
        },
        setup.problems[0].anchor.theta,
    )


@pytest.mark.parametrize("centred", [True, False], ids=["centred", "multiplied"])
def test_shares_are_those_of_normal_effects(centred):
    def effects(name, scale, size):
        if centred:
            return pm.Normal(name, 0.0, scale, shape=size)
        return scale * pm.Normal(name, 0.0, 1.0, shape=size)

    following, places, theta = following_of(effects)
    share = np.zeros(len(theta))
    share[following.effects] = following.share
    for name, codes, size in zip("ab", CODES, SIZES, strict=True):
        of_data = np.bincount(codes, minlength=size) * np.exp(2.0 * theta[places[f"scale_{name}"]])
        expected = 1.0 / (1.0 + of_data) if centred else of_data / (1.0 + of_data)
        expected[expected < LEAST_SHARE] = 0.0
        # Rows that effects of both factors share disturb the estimates.
        np.testing.assert_allclose(share[places[name]], expected, atol=0.1)
    assert np.all(following.power == (1.0 if centred else -1.0))


def test_effects_that_are_locations_or_scales_of_others_do_not_follow():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, pm.HalfNormal("upper", 1.0), shape=SIZES[1])
        own = pm.Normal("own", mean[np.arange(SIZES[0]) % SIZES[1]], pm.HalfNormal("lower", 1.0))
        pm.Normal("y", own[CODES[0]], 1.0, observed=0.1 * Y)
    setup = read(model, None, None, None, "auto")
    places = dict(zip([v.name for v in setup.vars], setup.layout.places, strict=True))
    elements = np.arange(len(setup.theta))
    assert set(setup.graph.following.effects) <= set(elements[places["own"]])
    assert len(setup.graph.following.effects)
