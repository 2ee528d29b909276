"""What chains keep from transition to transition is that of the state that they are in.

Densities, coefficients and factors of bright rows are written when a proposal is accepted, and
never again: after ten million transitions they must be what they are when computed from scratch.
"""

from typing import Any

import numpy as np

from pymc_flymc.kernels.fresh_brightness import AliasTables
from pymc_flymc.kernels.posterior import row_terms
from pymc_flymc.kernels.surrogate import Surrogate
from tests.sweep.combinations import combinations_of
from tests.sweep.models import MODELS

__all__ = ["CHAINS", "DRIFT", "drift_of", "largest_drift", "started_chain"]

#: Transitions between looks at a chain.
EACH = 100_000
#: Rounding errors that may add up: of sums of some hundred numbers.
DRIFT = 1e-10
#: Chains that are looked at: each kernel, two likelihoods, a scale with its effects.
CHAINS = (
    "poisson/plain/Taylor/joint",
    "poisson/plain/Taylor/surrogate",
    "poisson/plain/Taylor/metropolis",
    "poisson/plain/Taylor/hmc",
    "bernoulli-logit/plain/JaakkolaJordan/slice-random",
    "bernoulli-logit/plain/JaakkolaJordan/slice-coordinate",
    "bernoulli-logit/plain/JaakkolaJordan/mala",
    "bernoulli-logit/groups/JaakkolaJordan/local",
    "bernoulli-logit/several/JaakkolaJordan/metropolis",
    "student-t/nuisance/Tangent/hmc",
)


def started_chain(name: str, rng: np.random.Generator) -> Any:
    """Return a chain of one of the sweep's combinations."""
    model = MODELS["/".join(name.split("/")[:2])]
    (combination,) = (one for one in combinations_of(model) if one.name == name)
    with model.patches():
        step = combination.step()
        step.setup_chain(rng, 0, 1)
        step.step(model.sampled.initial_point())
    return step.chain


def largest_drift(chain: Any, rng: np.random.Generator, transitions: int) -> float:
    """Return the largest difference there was, relative to the numbers that are added up."""
    worst = 0.0
    for _ in range(max(1, transitions // EACH)):
        chain.advance(rng, min(EACH, transitions), 0.0)
        worst = max(worst, drift_of(chain))
    return worst


def drift_of(chain: Any) -> float:
    """Return the largest difference that there is, as `largest_drift` does."""
    posterior, *settings = chain._arguments()
    state, bright = chain.state, chain.bright
    theta, w = state.theta.copy(), np.empty_like(state.w)
    assert np.isfinite(theta).all()
    found = [np.max(np.abs(chain.geometry.standardise(theta) - state.v) / (1.0 + np.abs(state.v)))]
    index = bright.index[: chain.n_bright].copy()
    assert len(set(index.tolist())) == len(index), "a row is bright twice"
    if not chain.target.spec.fresh:
        slots = bright.slot
        assert np.count_nonzero(slots) == len(index), "a dark row has a place among the bright"
        np.testing.assert_array_equal(slots[index], np.arange(1, len(index) + 1))
    log_density = chain.target.density(theta, chain.statistics, w)
    surrogate = next((each for each in settings if isinstance(each, Surrogate)), None)
    found.append(_relative(state.w, w))
    factors, rates = row_terms(posterior, w, index, np.zeros(0), chain.scratch)
    found.append(_relative(bright.log_factor[: len(index)], factors))
    of_z = np.sum(factors - np.log(-np.expm1(-rates))) if chain.target.spec.fresh else 0.0
    weight = None
    if surrogate is None:
        found.append(_relative(state.log_density[0], log_density))
        if any(isinstance(each, AliasTables) for each in settings):
            weight = of_z + log_density + 0.5 * np.sum(state.v**2)
    else:
        weight = of_z
    if weight is not None:
        found.append(_relative(state.log_weight[0], weight))
    return float(max(found))


def _relative(kept: Any, computed: Any) -> float:
    size = 1.0 + np.abs(computed)
    return float(np.max(np.abs(np.asarray(kept) - computed) / size, initial=0.0))
