"""Weights of independent proposals, and whether tails are heavier than the expansion's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.compat.arviz import pareto_index
from pymc_flymc.kernels.factors import scratch_for
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.kernels.metropolis import INDEPENDENT, new_proposal_mixture
from pymc_flymc.kernels.posterior import row_terms
from pymc_flymc.reporting import doing, log
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import Costs
from pymc_flymc.sampling.sampler import Sampler, SamplingTask
from pymc_flymc.target.target import Target

#: Seed of what is drawn for a choice: a kernel is selected in the same way in each run.
SEED = 20141104
#: Joint proposals that are weighed, at most and at least.
PROPOSALS, FEWEST = 1000, 200
#: Draws of the Laplace approximation alone.
APPROXIMATE = 200
#: Weights with an index of 1/2 or more have no finite variance. A thousand proposals give the index
#: to some 0.1: an estimate above this may stand for 1/2. It matters only if the largest weight is
#: this many times the average.
PILOT_TAIL_INDEX = 0.4
LARGEST_WEIGHT = 10.0


@dataclass(frozen=True)
class Independence:
    """How well an independence sampler would do, judged by the weights of its proposals.

    `autocorrelation_time`: draws of the chain that are worth one independent draw. `heavy_tails`:
    whether the posterior is too far from the proposal distribution: some weights stand out, and
    their Pareto index (Vehtari et al. 2024) says that they have no finite variance.
    """

    autocorrelation_time: float
    heavy_tails: bool

    @classmethod
    def of(cls, log_weights: np.ndarray) -> Independence:
        """Judge proposals by their log weights, shape (n,), -inf where there is no density.

        A state of weight w is left with probability E min(1, W / w), W being the weight of a
        proposal. It lasts for a geometric number of moves, which makes the draws dependent.
        """
        n = len(log_weights)
        finite = log_weights[np.isfinite(log_weights)]
        if len(finite) < n // 2:
            return cls(np.inf, True)
        weights = np.exp(log_weights - finite.max())
        probability = weights / weights.sum()
        positive = weights > 0.0
        leave = np.zeros(n)
        with np.errstate(over="ignore"):
            leave[positive] = [np.mean(np.minimum(1.0, weights / w)) for w in weights[positive]]
        each = float(np.sum(probability[positive] * (2.0 - leave[positive]) / leave[positive]))
        # Where no weight stands out, a large index means nothing. It may be NaN.
        outstanding = bool(probability.max() > LARGEST_WEIGHT / n)
        heavy = outstanding and not pareto_index(finite) <= PILOT_TAIL_INDEX
        return cls(each, heavy)


def pilot_approximation(density: ExpandedDensity, anchor: Anchor) -> Independence:
    """Weigh draws of the Laplace approximation by the model with its rows expanded.

    Nothing is compiled, and no row is read. Joint moves cannot do better than this.
    """
    v = np.random.default_rng(SEED).standard_normal((APPROXIMATE, len(anchor.theta)))
    return weigh_approximation(density, anchor, v, -0.5 * np.sum(v**2, axis=1))


def weigh_approximation(
    density: ExpandedDensity, anchor: Anchor, v: np.ndarray, log_density: np.ndarray
) -> Independence:
    """Weigh standardised coordinates, shape (K, D), by the model with its rows expanded.

    `log_density` (K,): of the distribution that they were drawn from.
    """
    statistics = anchor.expansion.pack()
    evaluated = (density(anchor.geometry.unstandardise(each), statistics) for each in v)
    return Independence.of(np.array([value for value, _ in evaluated]) - log_density)


@doing("trying joint moves")
def weigh_joint_moves(
    sampler: Sampler, others: np.ndarray, costs: Costs, limit: float
) -> tuple[Independence, float]:
    """Weigh independent proposals of (theta, z), and count the rows that one reads.

    `sampler`: of joint moves. `others` (F,). `limit`: what proposals after the first `FEWEST` may
    cost, in rows read in turn.
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

    `sampler`: of joint or surrogate moves. Rows that it treats exactly do not count. `others` (F,).
    `limit`: rows that may be read. Once they have been, no further directions are looked at.
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

    `target`: of conditional updates. `others` (F,). `limit`: rows that may be read: all of them at
    the centre and in each direction. Once no pass is left, no further directions are looked at.
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
