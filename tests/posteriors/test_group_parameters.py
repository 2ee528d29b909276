"""Probabilities, rates and variances of groups with conjugate priors: posteriors in closed form."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_flymc import FireflyHMC, FireflyMH, FireflySlice
from tests.support.steps import step_of
from tests.support.tails import chain_draws

N, GROUPS = 60, 2
GROUP = np.arange(N) % 5 // 3  # 36 rows and 24
RNG = np.random.default_rng(11)
BINARY = (RNG.random(N) < np.array([0.9, 0.3])[GROUP]).astype(int)
EXPOSURE = RNG.uniform(0.5, 2.0, N)
COUNTS = RNG.poisson(EXPOSURE * np.array([0.4, 3.0])[GROUP])
NOISE = np.array([0.5, 2.0])[GROUP] * RNG.normal(size=N)
#: Shape parameters of the priors.
A, B = 2.0, 1.5


def sums(values):
    return np.bincount(GROUP, values, minlength=GROUPS)


def probabilities():
    pm.Bernoulli("y", p=pm.Beta("p", A, B, shape=GROUPS)[GROUP], observed=BINARY)
    return stats.beta(A + sums(BINARY), B + sums(1 - BINARY))


def rates():
    pm.Poisson("y", EXPOSURE * pm.Gamma("p", A, B, shape=GROUPS)[GROUP], observed=COUNTS)
    return stats.gamma(A + sums(COUNTS), scale=1.0 / (B + sums(EXPOSURE)))


def variances():
    scale = pt.sqrt(pm.InverseGamma("p", A, B, shape=GROUPS))
    pm.Normal("y", 0.0, scale[GROUP], observed=NOISE)
    return stats.invgamma(A + 0.5 * sums(np.ones(N)), scale=B + 0.5 * sums(NOISE**2))


MOVES = {
    "default": (FireflyMH, {}),
    "joint": (FireflyMH, {"kernel": "joint"}),
    "surrogate": (FireflyMH, {"kernel": "surrogate"}),
    "metropolis": (FireflyMH, {"kernel": "metropolis"}),
    "hamiltonian": (FireflyHMC, {}),
    "slices": (FireflySlice, {}),
}


#: Quick: what is chosen for one of them, and each kernel by name once.
QUICK = (
    "rates-hamiltonian",
    "rates-joint",
    "rates-metropolis",
    "rates-slices",
    "rates-surrogate",
    "variances-default",
)
NAMES = [f"{build}-{moves}" for build in ("probabilities", "rates", "variances") for moves in MOVES]


@pytest.mark.slow_cases(*(name for name in NAMES if name not in QUICK))
@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("build", [probabilities, rates, variances], ids=lambda each: each.__name__)
def test_posterior_of_what_groups_have(build, moves):
    """Distribution functions, down to the outer thousandths of each side."""
    with pm.Model() as model:
        exact = build()
    cls, settings = MOVES[moves]
    draws, _ = chain_draws(step_of(model, cls, **settings), model, 20_000)
    transform = model.rvs_to_transforms[model["p"]]
    p = transform.backward(pt.constant(draws), *model["p"].owner.inputs).eval()
    below = exact.cdf(p)  # uniform, if draws are from the posterior
    errors = []
    for level in (0.001, 0.1, 0.5, 0.9, 0.999):
        for each, wide in zip((below < level).T, (np.abs(below - 0.5) > 0.4).T, strict=True):
            # Of a tail that is never entered, independent draws are as many as of a wider one.
            visited = each if 0 < each.sum() < len(each) else wide
            size = az.ess(visited[None].astype(float), method="mean")
            error = np.sqrt(level * (1.0 - level) / size)
            errors.append((each.mean() - level) / error)
    limit = stats.norm.isf(1e-4 / len(errors))
    assert np.abs(errors).max() < limit, np.round(errors, 1)
