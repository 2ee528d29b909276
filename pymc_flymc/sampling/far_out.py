"""Whether a posterior's tails are heavier than those of its expansion, in a parameter's direction.

A short chain does not show that: it hardly ever gets there. Where the data do not limit a parameter
on one side, such as the share of counts without further zeros where there are none, the likelihood
is flat far out, while its expansion falls like a normal density. Joint and surrogate moves seldom
propose what is there, and the rates of dark rows hold conditional moves back.

pCN proposals given brightness are reversible for a normal density, and seldom enter or leave tails
that are heavier than that. They have no weights, but the posterior over that density, both known at
a point by reading all rows there, says the same.
"""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.row_terms import row_terms
from pymc_flymc.reporting import doing, log
from pymc_flymc.sampling.costs import Costs
from pymc_flymc.sampling.proposal_weights import PILOT_TAIL_INDEX, SEED
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.target import Target

#: What is said where tails are heavy.
HEAVY = "far out in a parameter the posterior is much heavier than"
OF_ROWS = f"{HEAVY} the expansion of its rows"
OF_PROPOSALS = f"{HEAVY} the normal density that pCN proposals are made for"
#: Looking at tails may take so many seconds.
LOOKS = 2.0

#: How far out, in standard deviations d. Weights of size exp(k d^2 / 2), by which the proposals'
#: density falls to the power k, have the Pareto index k.
FAR_SDS = 6.0
LARGEST_LOG_WEIGHT = 0.5 * PILOT_TAIL_INDEX * FAR_SDS**2
#: Draws of z at each place: the mean of their weights estimates the weight of the parameters.
REPLICATES = 16
#: Rows that are read at a time: room for their terms is all that is needed.
AT_A_TIME = 1 << 16


def look_at_tails(task: SamplingTask, sampler: Sampler) -> float | None:
    """As `rows_in_heavy_tails`, with a limit of `LOOKS` seconds."""
    costs = Costs.of(task.problems)
    return rows_in_heavy_tails(sampler, task.others, LOOKS / (costs.drawn * costs.seconds))


def warn_of_heavy_tails(task: SamplingTask, sampler: Sampler) -> None:
    """Warn if moves that were asked for would hardly reach a tail.

    They are joint or surrogate moves, or else conditional ones whose proposals are all made for a
    normal density.
    """
    target = sampler.target
    if target.spec.fresh:
        heavy, what = look_at_tails(task, sampler) is not None, OF_ROWS
    else:
        limit = LOOKS / Costs.of(task.problems).seconds
        heavy, what = heavier_than_normal(target, task.others, limit), OF_PROPOSALS
    if heavy:
        log.warning(
            f"{what}: moves that are asked for may hardly come there, which R-hat may hide. "
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
    for v in places_far_out(geometry):
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


@doing("looking at the tails")
def heavier_than_normal(target: Target, others: np.ndarray, limit: float) -> bool:
    """Return whether the posterior is much heavier far out than the normal density at its centre.

    Parameters
    ----------
    target : Target
        Of conditional updates.
    others : ndarray, shape (F,)
    limit : float
        Rows that may be read: all of them at the centre and in each direction. Once no pass is
        left, no further directions are looked at.
    """
    density = LogDensity(target, others)
    rows = 2 * density.n_rows  # at the centre and at one point
    if rows > limit:
        return False
    at_centre = density(np.zeros(len(target.geometry.centre)))
    for v in places_far_out(target.geometry):
        if rows > limit:
            return False
        rows += density.n_rows
        with suppress(Exception):  # as above
            if density(v) - at_centre + 0.5 * float(v @ v) > LARGEST_LOG_WEIGHT:
                return True
    return False


def places_far_out(geometry: Geometry) -> Iterator[np.ndarray]:
    """Yield standardised points: of each parameter, one so far out on either side.

    All other parameters are where they are most probable given it.
    """
    n = len(geometry.centre)
    for parameter in range(n):
        direction = geometry.standardise_gradient((np.arange(n) == parameter).astype(np.float64))
        direction *= FAR_SDS / np.linalg.norm(direction)
        yield from (direction, -direction)


class LogDensity:
    """The log posterior density of standardised coordinates, summed over brightness. O(N)."""

    def __init__(self, target: Target, others: np.ndarray) -> None:
        self.target = target
        self.statistics = np.concatenate([target.statistics, others])
        self.posterior = target.posterior(self.statistics, target.geometry)
        self.scratch = scratch_for(target.data.rows)
        self.n_rows = sum(len(part.X) for part in target.data.parts)

    def __call__(self, v: np.ndarray) -> float:
        """Log density at v, up to a constant."""
        target, w = self.target, np.empty(self.target.n_slopes)
        total = target.density(target.geometry.unstandardise(v), self.statistics, w)
        for start in range(0, self.n_rows, AT_A_TIME):
            rows = np.arange(start, min(start + AT_A_TIME, self.n_rows))
            factors, rates = row_terms(self.posterior, w, rows, np.empty(0), self.scratch)
            if target.subsamples:  # bright or dark
                factors = np.logaddexp(factors, -rates)
            total += float(factors.sum())
        return total
