"""A short run of what will sample, for the time that is said of it: never for a choice."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from pymc_flymc.reporting import doing
from pymc_flymc.sampling.effective_draws import effective_draws, evenly
from pymc_flymc.sampling.pilot_runs import SEED
from pymc_flymc.sampling.sampler import Sampler

#: Processor seconds that PyMC and a step take for a draw, beside the kernel's work.
PYMC_DRAW = 20e-6
#: Processor time of a rehearsal, as a share of that of the draws whose time is estimated, and its
#: limits in seconds: short enough not to be noticed, and not to be a nuisance.
SHARE, LEAST_SECONDS, MOST_SECONDS = 0.25, 0.5, 2.0
#: Chains that share it: what one of them learns in tuning makes it up to twice as slow as another.
CHAINS = 2
#: Share of its draws that tune, and their number in a chain: at most PyMC's own.
TUNES, FEWEST_TUNING, MOST_TUNING = 0.3, 50, 500
#: Draws after tuning, of all chains and of each. Of fewer, the slowest of many parameters would be
#: one whose estimate is off: with 120 the time of 60 coefficients came out five times too long.
FEWEST_DRAWS, ENOUGH = 200, 1000
#: Parameters whose draws are kept, at most, and how many of them stand for the slowest.
PARAMETERS, JUDGED = 300, 15
#: Effective draws of the slowest parameter below which more draws find it slower yet: of a centred
#: horseshoe, four times as slow.
TELLING = 50.0


class EstimatedTime(NamedTuple):
    """What an effective draw of the slowest parameter takes.

    Attributes
    ----------
    seconds : float
        Of processor time.
    at_least : bool
        Whether it may be much more.
    """

    seconds: float
    at_least: bool = False


@doing("trying how long sampling takes")
def rehearse(
    sampler: Sampler, others: np.ndarray, draw: float, of_all: float
) -> EstimatedTime | None:
    """Sample for a while; return what an effective draw of the slowest parameter takes.

    Parameters
    ----------
    sampler : Sampler
    others : ndarray, shape (F,)
    draw, of_all : float
        Seconds of a draw and of all draws whose time is to be said, by what pilot runs say.

    Returns
    -------
    EstimatedTime or None
        With PyMC's own work; None where there is too little time to tell.
    """
    limit = float(np.clip(SHARE * of_all, LEAST_SECONDS, MOST_SECONDS)) / CHAINS
    if (FEWEST_TUNING + FEWEST_DRAWS / CHAINS) * draw > 2.0 * limit:  # far from enough, roughly
        return None
    steps = int(np.clip(TUNES * limit / draw, FEWEST_TUNING, MOST_TUNING))
    n_draws, seconds, effective = 0, 0.0, []
    for rng in np.random.default_rng(SEED).spawn(CHAINS):
        draws, spent = _chain(sampler, others, rng, steps, limit)
        if len(draws) < FEWEST_DRAWS // CHAINS:
            return None
        n_draws, seconds = n_draws + len(draws), seconds + spent
        effective.append(effective_draws(draws))
    slowest = _slowest(np.array(effective))
    if not slowest:
        return None
    return EstimatedTime((seconds + n_draws * PYMC_DRAW) / slowest, slowest < TELLING)


def _slowest(effective: np.ndarray) -> float:
    """Return how many effective draws of the slowest parameter all chains have.

    The smallest of hundreds of estimates from few draws is one that is off. Of so many parameters,
    those that are slowest by one chain are judged by another.

    Parameters
    ----------
    effective : ndarray, shape (CHAINS, n)
        Effective draws of each chain and parameter.
    """
    if effective.shape[1] < PARAMETERS:
        return float(effective.sum(axis=0).min())
    order = np.argsort(effective, axis=1)[:, :JUDGED]
    judged = [np.median(other[slow]) for other, slow in zip(effective[::-1], order, strict=True)]
    return float(np.sum(judged))


def _chain(
    sampler: Sampler, others: np.ndarray, rng: np.random.Generator, steps: int, limit: float
) -> tuple[np.ndarray, float]:
    """Return a chain's draws after so many steps of tuning, and the seconds that these took.

    It returns no draws if it finds no start, or if tuning takes all of the time.
    """
    began = time.thread_time()
    chain, tuning = sampler.new_chain(), sampler.new_tuning(steps)
    chain.set_others(others)
    if not chain.start_dispersed(rng, 1.0):
        return np.empty((0, 1)), 0.0
    sampler.adaptation.started(chain, rng, dispersed=True)
    kept = evenly(len(chain.state.theta), PARAMETERS)
    draws: list[np.ndarray] = []
    # A start may be a pass over all rows: it takes its part of the time.
    spent = tuned = time.thread_time() - began
    while spent < limit and len(draws) < ENOUGH:
        began = time.thread_time()
        chain.advance(rng, tuning.transitions, tuning.gain())
        spent += time.thread_time() - began
        if tuning.is_over:
            draws.append(chain.state.theta[kept])
        else:
            chain, tuning = sampler.learn(chain, tuning, rng)
            tuned = spent
    return np.array(draws).reshape(-1, len(kept)), spent - tuned
