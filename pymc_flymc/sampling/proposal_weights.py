"""Weights of independent proposals, and what they show of a chain that accepts by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.compat.arviz import pareto_index
from pymc_flymc.kernels.metropolis import INDEPENDENT, new_proposal_mixture
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import Costs
from pymc_flymc.sampling.sampler import Sampler

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

    Attributes
    ----------
    autocorrelation_time : float
        Draws of the chain that are worth one independent draw.
    heavy_tails : bool
        Whether the posterior is too far from the proposal distribution: some weights stand out,
        and their Pareto index (Vehtari et al. 2024) says that they have no finite variance.
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

    Parameters
    ----------
    log_density : ndarray, shape (K,)
        Of the distribution that they were drawn from.
    """
    statistics = anchor.expansion.pack()
    evaluated = (density(anchor.geometry.unstandardise(each), statistics) for each in v)
    return Independence.of(np.array([value for value, _ in evaluated]) - log_density)


@doing("trying joint moves")
def weigh_joint_moves(
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
