"""A short run of what will sample, for the time that is said of it: never for a choice."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.effective_draws import effective_draws, evenly
from pymc_flymc.sampling.pilot_runs import LATEST, SEED
from pymc_flymc.sampling.sampler import Sampler

#: Effective draws that times are said for.
EFFECTIVE_DRAWS = 1000
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
#: Parameters, or effects, whose draws are kept, at most, and how many stand for the slowest.
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


class ExpectedTime(NamedTuple):
    """Seconds of a draw, and of all draws whose time is to be said, by what is known of them."""

    draw: float
    of_all: float


@doing("trying how long sampling takes")
def rehearse(
    sampler: Sampler, others: np.ndarray, expected: ExpectedTime | None = None
) -> EstimatedTime | None:
    """Sample for a while; return what an effective draw of the slowest parameter takes.

    Parameters
    ----------
    sampler : Sampler
    others : ndarray, shape (F,)
    expected : ExpectedTime, optional
        By a pilot run. Without one, a chain's first draws tell what a draw takes.

    Returns
    -------
    EstimatedTime or None
        With PyMC's own work; None where there is too little time to tell. Without a pilot run it is
        then what one draw takes, if chains find a start.
    """
    rngs, least = np.random.default_rng(SEED).spawn(CHAINS), None
    first, *more = (_TimedChain(sampler, others, rng) for rng in rngs)
    if expected is None:
        times = first.tune(FEWEST_TUNING, MOST_SECONDS / CHAINS)[-LATEST:]
        if not len(times):
            return None
        draw = float(times.mean())
        least = EstimatedTime(float(times.min()) + PYMC_DRAW, True)
        expected = ExpectedTime(draw, EFFECTIVE_DRAWS * draw)
    draw, of_all = expected
    fewest = (CHAINS * FEWEST_TUNING + FEWEST_DRAWS) * draw
    limit = float(np.clip(max(SHARE * of_all, fewest), LEAST_SECONDS, MOST_SECONDS))
    if fewest > limit:
        return least
    limit /= CHAINS
    steps = int(np.clip(TUNES * limit / draw, FEWEST_TUNING, MOST_TUNING))
    n_draws, seconds, effective = 0, 0.0, []
    for chain in (first, *more):
        chain.tune(steps, limit)
        draws, spent = chain.draw(limit)
        if len(draws) < FEWEST_DRAWS // CHAINS:
            return least
        n_draws, seconds = n_draws + len(draws), seconds + spent
        effective.append(effective_draws(draws))
    slowest = _slowest(np.array(effective), first.watched.alone)
    if not slowest:
        return least
    return EstimatedTime((seconds + n_draws * PYMC_DRAW) / slowest, slowest < TELLING)


def _slowest(effective: np.ndarray, alone: np.ndarray) -> float:
    """Return how many effective draws of the slowest parameter all chains have.

    The smallest of hundreds of estimates from few draws is one that is off. Of so many parameters,
    those that are slowest by one chain are judged by another.

    Parameters
    ----------
    effective : ndarray, shape (CHAINS, n)
        Effective draws of each chain and parameter.
    alone : ndarray of bool, shape (n,)
        Which parameters are judged each by itself.
    """
    found = [float(np.min(effective[:, alone].sum(axis=0)))] if alone.any() else []
    many = effective[:, ~alone]
    if many.shape[1]:
        order = np.argsort(many, axis=1)[:, :JUDGED]
        judged = [np.median(other[slow]) for other, slow in zip(many[::-1], order, strict=True)]
        found.append(float(np.sum(judged)))
    return min(found)


class _Watched(NamedTuple):
    """Parameters whose draws are kept.

    Attributes
    ----------
    places : ndarray of int, shape (n,)
    alone : ndarray of bool, shape (n,)
        Which of them are judged each by itself.
    """

    places: np.ndarray
    alone: np.ndarray

    @classmethod
    def of(cls, geometry: Geometry) -> _Watched:
        """Watch all parameters, if there are few.

        Of many, all that are no effects of groups are watched, such as scales, which may be slower
        by far than any effect; and an even choice of the others.
        """
        n = len(geometry.centre)
        alone = np.full(n, n < PARAMETERS)
        if len(geometry.dense) < PARAMETERS:
            alone[geometry.dense] = True
        effects = np.flatnonzero(~alone)
        places = np.union1d(np.flatnonzero(alone), effects[evenly(len(effects), PARAMETERS)])
        return cls(places, alone[places])


class _TimedChain:
    """A chain that times its draws. It starts, by a pass over all rows, with the first of them.

    Parameters
    ----------
    sampler : Sampler
    others : ndarray, shape (F,)
    rng : Generator
    """

    def __init__(self, sampler: Sampler, others: np.ndarray, rng: np.random.Generator) -> None:
        self._sampler, self._others, self._rng = sampler, others, rng
        self._chain: FireflyChain | None = None
        self._tuning = sampler.new_tuning(0)
        self.watched = _Watched.of(sampler.target.geometry)
        self._seconds: list[float] = []
        self._spent = 0.0

    def tune(self, steps: int, limit: float) -> np.ndarray:
        """Tune until all draws so far are so many, or have taken so many seconds.

        Returns
        -------
        ndarray, shape (n,)
            Seconds that each has taken: of none, if the chain finds no start.
        """
        if self._chain is None:
            self._chain = self._started()
        if self._chain is not None and len(self._seconds) < steps:
            self._tuning = self._sampler.new_tuning(steps - len(self._seconds))
            while not self._tuning.is_over and self._spent < limit:
                self._advance(self._chain)
                learnt = self._sampler.learn(self._chain, self._tuning, self._rng)
                self._chain, self._tuning = learnt
        return np.array(self._seconds)

    def draw(self, limit: float) -> tuple[np.ndarray, float]:
        """Draw until all draws have taken so many seconds, or are enough.

        Where they take longer than expected, it may be twice as many seconds, for the fewest draws.

        Returns
        -------
        draws : ndarray, shape (n, P)
            Of the parameters that are watched: none before tuning is over.
        seconds : float
            That these have taken.
        """
        chain, tuned = self._chain, self._spent
        if chain is None or not self._tuning.is_over:
            return np.empty((0, 1)), 0.0
        draws: list[np.ndarray] = []
        while len(draws) < ENOUGH:
            few = len(draws) < FEWEST_DRAWS // CHAINS
            if self._spent >= (2.0 * limit if few else limit):
                break
            self._advance(chain)
            draws.append(chain.state.theta[self.watched.places])
        return np.array(draws).reshape(-1, len(self.watched.places)), self._spent - tuned

    def _started(self) -> FireflyChain | None:
        chain = self._sampler.new_chain()
        chain.set_others(self._others)
        if not chain.start_dispersed(self._rng, 1.0):
            return None
        self._sampler.adaptation.started(chain, self._rng, dispersed=True)
        return chain

    def _advance(self, chain: FireflyChain) -> None:
        began = time.thread_time()
        chain.advance(self._rng, self._tuning.transitions, self._tuning.gain())
        self._seconds.append(time.thread_time() - began)
        self._spent += self._seconds[-1]
