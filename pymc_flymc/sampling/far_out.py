"""Whether a posterior's tails are heavier than those of its expansion, in a parameter's direction.

A short chain does not show that: it hardly ever gets there. Where the data do not limit a parameter
on one side, such as the share of counts without further zeros where there are none, the likelihood
is flat far out, while its expansion falls like a normal density. Joint and surrogate moves seldom
propose what is there, and the rates of dark rows hold conditional moves back.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from pymc_flymc.reporting import doing, log
from pymc_flymc.sampling.costs import Costs
from pymc_flymc.sampling.proposal_weights import PILOT_TAIL_INDEX, SEED
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask

#: What is said where tails are heavy.
HEAVY = "far out in a parameter the posterior is much heavier than the expansion of its rows"
#: Looking at tails may take so many seconds.
LOOKS = 2.0

#: How far out, in standard deviations d. Weights of size exp(k d^2 / 2), by which the proposals'
#: density falls to the power k, have the Pareto index k.
FAR_SDS = 6.0
LARGEST_LOG_WEIGHT = 0.5 * PILOT_TAIL_INDEX * FAR_SDS**2
#: Draws of z at each place: the mean of their weights estimates the weight of the parameters.
REPLICATES = 16


def look_at_tails(task: SamplingTask, sampler: Sampler) -> float | None:
    """As `rows_in_heavy_tails`, with a limit of `LOOKS` seconds."""
    costs = Costs.of(task.problems)
    return rows_in_heavy_tails(sampler, task.others, LOOKS / (costs.drawn * costs.seconds))


def warn_of_heavy_tails(task: SamplingTask, sampler: Sampler) -> None:
    """Warn if joint or surrogate moves that were asked for would hardly reach a tail."""
    if look_at_tails(task, sampler) is not None:
        log.warning(
            f"{HEAVY}: moves that are asked for may hardly come there, which R-hat may hide. "
            "Compare the draws with those of moves that are chosen, without kernel= and proposal="
        )


@doing("looking at the tails")
def rows_in_heavy_tails(sampler: Sampler, others: np.ndarray, limit: float) -> float | None:
    """Return how many rows are bright where weights are too large far out, or None.

    Parameters
    ----------
    sampler : Sampler
        Of joint or surrogate moves. Rows that it treats exactly do not count.
    others : ndarray, shape (F,)
    limit : float
        Rows that may be read. Once they have been, no further directions are looked at.
    """
    rng, chain = np.random.default_rng(SEED), sampler.new_chain()
    chain.set_others(others)
    geometry = sampler.target.geometry
    n = len(geometry.centre)
    chain.start(rng, np.zeros(n))
    at_centre, rows = chain.log_weight, 0.0
    for parameter in range(n):
        # One parameter is so far out, and all others are where they are most probable given it.
        direction = geometry.whiten_gradient((np.arange(n) == parameter).astype(np.float64))
        direction *= FAR_SDS / np.linalg.norm(direction)
        for v in (direction, -direction):
            if rows > limit:
                return None
            weights = np.full(REPLICATES, -np.inf)
            for i in range(REPLICATES):
                with suppress(Exception):  # of a user's own type: no draw needs such points
                    if np.isfinite(chain.start(rng, v)):
                        weights[i] = chain.log_weight
            read = chain.take_queries()
            rows += read
            if np.logaddexp.reduce(weights) - np.log(REPLICATES) - at_centre > LARGEST_LOG_WEIGHT:
                return read / REPLICATES
    return None
