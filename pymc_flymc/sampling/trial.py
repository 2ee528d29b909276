"""A trial of joint moves: independent proposals, weighed before any chain runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from arviz_stats.base import array_stats

from pymc_flymc.kernels.metropolis import INDEPENDENT, new_moves
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target

__all__ = ["Trial", "try_joint_moves"]

#: Joint proposals that are weighed.
PROPOSALS = 1000
#: Tail index of their weights beyond which their variance is not finite, and the share of one
#: weight in their sum that makes it a cause for concern: ten times the average.
LARGEST_TAIL_INDEX = 0.5
LARGEST_SHARE = 0.01


@dataclass(frozen=True)
class Trial:
    """Independent joint proposals of a target, and what a chain of them would be like.

    Attributes
    ----------
    rows : float
        Rows read by a proposal.
    acceptance : float
        Probability of acceptance in equilibrium.
    autocorrelation_time : float
        Draws of the chain that are worth one independent draw.
    heavy_tails : bool
        Whether the posterior is too far from normal for these estimates, and for the proposals: the
        Pareto index of the weights (Vehtari et al. 2024) says that they have no finite
        variance, and some of them do stand out.
    """

    rows: float
    acceptance: float
    autocorrelation_time: float
    heavy_tails: bool


@doing("trying joint moves")
def try_joint_moves(target: Target, resampling: Resampling, others: np.ndarray) -> Trial:
    """Weigh independent proposals of (theta, z): posterior over Laplace approximation.

    A state of weight w is left with probability E min(1, W / w), W being the weight of a proposal,
    so that it lasts for a geometric number of moves: this is what makes an independence sampler's
    draws dependent.
    """
    rng = np.random.default_rng(20141104)
    n_parameters = len(target.geometry.centre)
    chain = FireflyChain(target, resampling, new_moves(n_parameters, np.eye(3)[INDEPENDENT]))
    chain.set_others(others)
    log_weights = np.full(PROPOSALS, -np.inf)
    for i in range(PROPOSALS):
        if np.isfinite(chain.start(rng, rng.standard_normal(n_parameters))):
            log_weights[i] = chain.state.log_weight[0]
    rows = chain.take_queries() / PROPOSALS
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < PROPOSALS // 2:
        return Trial(rows, 0.0, np.inf, True)
    weights = np.exp(log_weights - finite.max())
    law = weights / weights.sum()
    positive = weights > 0.0
    leave = np.zeros(PROPOSALS)
    with np.errstate(over="ignore"):
        leave[positive] = [np.mean(np.minimum(1.0, weights / w)) for w in weights[positive]]
    time = float(np.sum(law[positive] * (2.0 - leave[positive]) / leave[positive]))
    # The index of a law that is far from Pareto's may come out as NaN. Where few rows are bright,
    # it is large without meaning anything: most weights agree to three digits, none is far away.
    heavy = not array_stats.psislw(finite)[1] <= LARGEST_TAIL_INDEX
    return Trial(rows, float(law @ leave), time, heavy and bool(law.max() > LARGEST_SHARE))
