"""Pilot runs of kernels before sampling: joint proposals that are weighed, and short chains."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.bounds import Problem
from pymc_flymc.compat.arviz import pareto_index
from pymc_flymc.kernels.metropolis import INDEPENDENT, new_proposal_mixture
from pymc_flymc.kernels.rescaling import MOST_MOVES
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import GRADIENT, row_seconds
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.tuning import slowest_autocorrelation
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target

#: Seed of pilot runs: a kernel is selected in the same way in each run.
SEED = 20141104
#: Draws of a pilot chain in tuning, and after it.
TUNING, DRAWS = 120, 120
#: It may end after this many draws, judged by this many of the latest.
EARLIEST, LATEST = 60, 20

#: Rows that a pilot run may read: so many passes over all rows, and as many rows as can be read in
#: so many seconds.
PASSES, SECONDS = 40.0, 1.0

#: Joint proposals that are weighed, and draws of the Laplace approximation alone; at least as many
#: proposals.
PROPOSALS, APPROXIMATE = 1000, 200
#: Proposals after which it is checked again whether their weights already vary too much.
EACH = 50
#: Weights with an index of 1/2 or more have no finite variance. So many proposals give the index to
#: some 0.1: an estimate above this may stand for 1/2. It matters only if the largest weight is this
#: many times the average.
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
    outstanding : bool
        Whether one of the weights stands out, so that the time is a rough estimate.
    """

    autocorrelation_time: float
    heavy_tails: bool
    outstanding: bool = False

    @classmethod
    def of(cls, log_weights: np.ndarray) -> Independence:
        """Judge proposals by their log weights, shape (n,), -inf where there is no density.

        A state of weight w is left with probability E min(1, W / w), W being the weight of a
        proposal. It lasts for a geometric number of moves, which makes the draws dependent.
        """
        n = len(log_weights)
        finite = log_weights[np.isfinite(log_weights)]
        if len(finite) < n // 2:
            return cls(np.inf, True, True)
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
        return cls(each, heavy, outstanding)


def most_rows(problems: Sequence[Problem], others: float = 0.0) -> float:
    """Return the rows that a pilot run may read: passes, and `SECONDS` or `others` if more."""
    n_rows = sum(problem.design.n_rows for problem in problems)
    return PASSES * n_rows + max(SECONDS / row_seconds(problems), others)


def pilot_approximation(density: ExpandedDensity, problem: Problem) -> Independence:
    """Weigh draws of the Laplace approximation by the model with its rows expanded.

    Nothing is compiled, and no row is read. Joint moves cannot do better than this.
    """
    d = len(problem.anchor.geometry.centre)
    v = np.random.default_rng(SEED).standard_normal((APPROXIMATE, d))
    return weigh_approximation(density, [problem], v, -0.5 * np.sum(v**2, axis=1))


def weigh_approximation(
    density: ExpandedDensity, problems: Sequence[Problem], v: np.ndarray, log_density: np.ndarray
) -> Independence:
    """Weigh standardised coordinates, shape (K, D), by the model with its rows expanded.

    Parameters
    ----------
    log_density : ndarray, shape (K,)
        Of the distribution that they were drawn from.
    """
    geometry = problems[0].anchor.geometry
    statistics = np.concatenate([problem.own.expansion.pack() for problem in problems])
    of_model = [density(geometry.unwhiten(each), statistics)[0] for each in v]
    return Independence.of(np.array(of_model) - log_density)


@dataclass(frozen=True)
class JointPilot:
    """Independent proposals of (theta, z) that were weighed.

    Attributes
    ----------
    weighed : Independence
    rows : float
        That one reads.
    seconds : float
        Of processor time that a transition takes, with moves of scales beside it: for the log,
        never for a choice.
    """

    weighed: Independence
    rows: float
    seconds: float = np.nan


@doing("trying joint moves")
def pilot_joint_moves(
    target: Target, resampling: Resampling, others: np.ndarray, limit: float, hopeless: float
) -> JointPilot:
    """Weigh independent proposals of (theta, z), and count the rows that one reads.

    There are fewer proposals if they read more rows than the limit, or if an effective draw reads
    more rows than `hopeless`, which few weights can only underestimate.

    Parameters
    ----------
    limit, hopeless : float
        In rows: of all proposals together, and per effective draw.
    """
    rng = np.random.default_rng(SEED)
    n_parameters = len(target.geometry.centre)
    chain = FireflyChain(
        target, resampling, new_proposal_mixture(n_parameters, np.eye(3)[INDEPENDENT])
    )
    chain.set_others(others)
    log_weights, rows, seconds = np.full(PROPOSALS, -np.inf), 0.0, 0.0
    for i in range(PROPOSALS):
        began = time.thread_time()
        log_density = chain.start(rng, rng.standard_normal(n_parameters))
        seconds += time.thread_time() - began
        if np.isfinite(log_density):
            log_weights[i] = chain.state.log_weight[0]
        rows += chain.take_queries()
        n = i + 1
        weighed = n == PROPOSALS or (rows > limit and n >= APPROXIMATE)
        if weighed or n % EACH == 0:
            found, each = Independence.of(log_weights[:n]), rows / n
            if weighed or found.autocorrelation_time * each > hopeless:
                break
    # A move of a scale takes about as long as a proposal.
    moves = min(target.graph.scales.n_reading, MOST_MOVES)
    return JointPilot(found, each, (1 + moves) * seconds / n)


@dataclass(frozen=True)
class PilotRun:
    """Result of a short chain.

    Attributes
    ----------
    cost : float
        Of an effective draw of the slowest parameter, in units of a row that is read; infinite if
        the chain found no start, or never moved.
    gradients : float
        Evaluations of the gradient per effective draw; infinite with the cost.
    accept : float
        Mean acceptance probability.
    ended : bool
        Whether the chain was long enough to tell; else cost, gradients, transitions and seconds are
        those of three draws.
    transitions : float
        For an effective draw.
    seconds : float
        Processor time of an effective draw: for the log, never for a choice.
    """

    cost: float
    gradients: float
    accept: float
    ended: bool
    transitions: float = np.nan
    seconds: float = np.nan


@doing("trying moves")
def pilot_chain(
    sampler: Sampler,
    others: np.ndarray,
    each: float,
    to_beat: float,
    limit: float,
) -> PilotRun:
    """Run a short chain. End it early if it cannot pay, or if its cost exceeds a limit.

    Costs are counts of rows and evaluations, never times: the same model is always sampled in the
    same way.

    Parameters
    ----------
    sampler : Sampler
        Its anchor stays where it is.
    others : ndarray, shape (F,)
    each, to_beat, limit : float
        Cost of evaluating the density, of an effective draw by other means, and what the pilot run
        may cost, in units of a row that is read.
    """
    rng = np.random.default_rng(SEED)
    adaptation = sampler.adaptation
    chain, tuning = sampler.new_chain(), sampler.new_tuning(TUNING)
    # Transitions that are added because they are cheap do not count for an effective draw.
    tuning.fewest = adaptation.fewest
    chain.set_others(others)
    nothing = PilotRun(np.inf, np.inf, 0.0, False)
    if not chain.start_dispersed(rng, 1.0):
        return nothing
    adaptation.started(chain, rng, dispersed=True)
    # The start is not part of a draw.
    chain.take_queries()
    adaptation.gradients(chain)
    # The first one is where the chain begins.
    draws = np.empty((1 + TUNING + DRAWS, len(chain.state.v)))
    draws[0] = chain.state.v
    costs, gradients, accept, seconds = np.zeros((4, TUNING + DRAWS))
    for i in range(TUNING + DRAWS):
        began = time.thread_time()
        accept[i] = chain.advance(rng, tuning.transitions, tuning.gain())
        seconds[i] = time.thread_time() - began
        gradients[i] = adaptation.gradients(chain)
        evaluations = tuning.transitions + GRADIENT * gradients[i]
        costs[i] = evaluations * each + chain.take_queries()
        draws[i + 1] = chain.state.v
        # Means of the latest draws alone: before step sizes are tuned, trajectories are long.
        latest = slice(max(0, i + 1 - LATEST), i + 1)
        of_draw = costs, gradients, accept, seconds
        mean = [float(each[latest].mean()) for each in of_draw]
        if (i >= EARLIEST and mean[0] > to_beat) or costs.sum() > limit:
            # The chain would cost more than other kernels even if each draw were independent, or it
            # costs too much for a pilot run. It is judged as if every third draw were independent.
            stuck = _never_moved(draws[latest.start : i + 2])
            if stuck:
                return nothing
            third = 3.0 * mean[0], 3.0 * mean[1], mean[2], False
            return PilotRun(*third, 3.0 * tuning.transitions, 3.0 * mean[3])
        if i < TUNING:
            chain, tuning = sampler.learn(chain, tuning, rng)
    if _never_moved(draws[TUNING:]):
        return nothing
    slowest = slowest_autocorrelation(draws[1 + TUNING :])
    effective = DRAWS * (1.0 - slowest) / (1.0 + slowest)
    return PilotRun(
        float(costs[TUNING:].sum()) / effective,
        float(gradients[TUNING:].sum()) / effective,
        float(accept[TUNING:].mean()),
        True,
        DRAWS * tuning.transitions / effective,
        float(seconds[TUNING:].sum()) / effective,
    )


def _never_moved(draws: np.ndarray) -> bool:
    """Whether all draws, shape (n, D), are the same."""
    return bool(np.all(draws == draws[0]))
