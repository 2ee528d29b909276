"""Effects of groups in the form for many, on several predictors, against NUTS."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_flymc import FireflyHMC
from pymc_flymc.bounds import Bohning, JebaraChoromanska, ScaledTaylorInParts, TaylorInParts
from tests.support.nuts import assert_match_nuts

N, GROUPS = 400, 5
RNG = np.random.default_rng(11)
GROUP, X = RNG.integers(0, GROUPS, N), RNG.normal(size=N)
A, D = 0.6 * RNG.normal(size=GROUPS), 0.4 * RNG.normal(size=GROUPS)
ETA, TAU = 0.3 + A[GROUP] + 0.4 * X, -0.4 + D[GROUP]
PRICES = RNG.normal(size=(N, 3))


def effects(name):
    """Effects of groups."""
    return pm.Normal(name, 0.0, 1.0, shape=GROUPS)[GROUP]


def scales():
    mu = effects("a") + pm.Normal("b", 0.0, 1.0) * X
    noise = RNG.standard_t(4, size=N)
    observed = ETA + np.exp(TAU) * noise
    pm.StudentT("y", nu=4, mu=mu, sigma=pm.math.exp(effects("d")), observed=observed)


def zeros():
    """Of counts whose mean has no effects."""
    y = RNG.poisson(np.exp(0.5 + 0.3 * X)) * (RNG.random(N) < 1.0 / (1.0 + np.exp(-1.0 - D[GROUP])))
    mean = pm.math.exp(pm.Normal("a", 0.0, 1.0) + pm.Normal("b", 0.0, 1.0) * X)
    pm.ZeroInflatedPoisson("y", psi=pm.math.sigmoid(effects("d")), mu=mean, observed=y)


def durations():
    k = pm.LogNormal("k", 0.0, 1.0)
    rate = k / pm.math.exp(effects("a") + pm.Normal("b", 0.0, 1.0) * X)
    pm.Gamma("y", alpha=k, beta=rate, observed=np.exp(ETA) * RNG.gamma(2.5, 0.4, N))


def choice():
    """Each person has an effect of the price, which all alternatives share."""
    y = (RNG.gumbel(size=(N, 3)) + (A[GROUP] - 1.0)[:, None] * PRICES).argmax(axis=1)
    constants = pt.concatenate([[0.0], pm.Normal("c", 0.0, 1.0, shape=2)])
    pm.Categorical("y", logit_p=constants + effects("a")[:, None] * PRICES, observed=y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "bound"),
    [
        (scales, TaylorInParts),
        (zeros, TaylorInParts),
        (durations, ScaledTaylorInParts),
        (choice, JebaraChoromanska),
        (choice, Bohning),
    ],
)
def test_posterior(write, bound, structured):
    with pm.Model() as model:
        write()
        step = FireflyHMC() if bound is not Bohning else FireflyHMC(bound=Bohning())
    assert isinstance(step.bounds[0], bound)
    assert len(step.target.geometry.diagonal)  # the form for many
    assert_match_nuts(model, step, draws=8000, nuts=dict(draws=3000))
