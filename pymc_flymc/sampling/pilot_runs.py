"""Pilot runs before sampling: joint proposals that are weighed, and a short chain."""

from __future__ import annotations

import numpy as np

from pymc_flymc.kernels.metropolis import INDEPENDENT, new_proposal_mixture
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import GRADIENT, Costs
from pymc_flymc.sampling.proposal_weights import SEED, Independence
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.tuning import slowest_autocorrelation

#: Draws of a pilot chain in tuning, and after it.
TUNING, DRAWS = 120, 120
#: Joint proposals that are weighed, at most and at least.
PROPOSALS, FEWEST = 1000, 200


@doing("trying joint moves")
def pilot_joint_moves(
    sampler: Sampler, others: np.ndarray, costs: Costs, limit: float
) -> tuple[Independence, float]:
    """Weigh independent proposals of (theta, z), and count the rows that one reads.

    Parameters
    ----------
    sampler : Sampler
        Of joint moves.
    others : ndarray, shape (F,)
    costs : Costs
    limit : float
        What proposals after the first `FEWEST` may cost, in rows read in turn.
    """
    rng = np.random.default_rng(SEED)
    n_parameters = len(sampler.target.geometry.centre)
    independent = new_proposal_mixture(n_parameters, np.eye(3)[INDEPENDENT])
    chain = FireflyChain(sampler.target, sampler.brightness, independent)
    chain.set_others(others)
    log_weights: list[float] = []
    rows = 0
    while len(log_weights) < PROPOSALS:
        log_density = chain.start(rng, rng.standard_normal(n_parameters))
        log_weights.append(chain.log_weight if np.isfinite(log_density) else -np.inf)
        rows += chain.take_queries()
        if costs.drawn * rows > limit and len(log_weights) >= FEWEST:
            break
    return Independence.of(np.array(log_weights)), rows / len(log_weights)


@doing("trying moves")
def pilot_chain(sampler: Sampler, others: np.ndarray, costs: Costs, limit: float) -> float:
    """Return the cost of an effective draw of the slowest parameter by a short chain.

    It is counted in rows read in turn, never timed: the same model is always sampled in the same
    way. It is infinite if the chain finds no start, never moves, or costs more than the limit.
    """
    rng, adaptation = np.random.default_rng(SEED), sampler.adaptation
    chain, tuning = sampler.new_chain(), sampler.new_tuning(TUNING)
    # Transitions that are added because they are cheap do not count for an effective draw.
    tuning.fewest = adaptation.fewest
    chain.set_others(others)
    if not chain.start_dispersed(rng, 1.0):
        return np.inf
    adaptation.started(chain, rng, dispersed=True)
    # The start is not part of a draw.
    chain.take_queries()
    adaptation.gradients(chain)
    draws, cost = np.empty((TUNING + DRAWS, len(chain.state.v))), np.zeros(TUNING + DRAWS)
    for i in range(len(draws)):
        chain.advance(rng, tuning.transitions, tuning.gain())
        gradients = adaptation.gradients(chain)
        rows = costs.of_queries(sampler.target, chain.take_queries(), gradients)
        cost[i] = (tuning.transitions + GRADIENT * gradients) * costs.evaluation + rows
        draws[i] = chain.state.v
        if cost.sum() > limit:
            return np.inf
        if not tuning.is_over:
            chain, tuning = sampler.learn(chain, tuning, rng)
    kept = draws[TUNING:]
    if np.all(kept == kept[0]):
        return np.inf
    slowest = slowest_autocorrelation(kept)
    return float(cost[TUNING:].mean()) * (1.0 + slowest) / (1.0 - slowest)
