"""Trials before any chain runs: joint proposals that are weighed, and short chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.bounds import Problem
from pymc_flymc.kernels.metropolis import INDEPENDENT, new_moves
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import GRADIENT
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.tails import pareto_index
from pymc_flymc.sampling.tuners import Tuner
from pymc_flymc.sampling.tuning import slowest_autocorrelation
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target

__all__ = [
    "ChainTrial",
    "Independence",
    "try_approximation",
    "try_chain",
    "try_joint_moves",
    "weigh_approximation",
]

#: Seed of trials, which have random numbers of their own: a choice is the same in each run.
SEED = 20141104
#: Draws of a trial chain: while it tunes, and that are looked at.
TUNING, DRAWS = 120, 120
#: After how many it may end, judged by how many.
EARLIEST, LATEST = 60, 20

#: Joint proposals that are weighed, and draws of the approximation that they come from; at least so
#: many proposals, too.
PROPOSALS, APPROXIMATE = 1000, 200
#: After how many it is looked whether their weights vary too much already.
EACH = 50
#: Tail index of weights beyond which their variance is not finite, and how many times the average
#: one of them must be for that to be a cause for concern.
LARGEST_TAIL_INDEX = 0.5
LARGEST_WEIGHT = 10.0


@dataclass(frozen=True)
class Independence:
    """What weights of independent proposals say of a chain of these.

    Attributes
    ----------
    autocorrelation_time : float
        Draws of the chain that are worth one independent draw.
    heavy_tails : bool
        Whether the posterior is too far from the proposals' law for these estimates, and for the
        proposals: the Pareto index of the weights (Vehtari et al. 2024) says that they have no
        finite variance, and some of them do stand out.
    """

    autocorrelation_time: float
    heavy_tails: bool

    @classmethod
    def of(cls, log_weights: np.ndarray) -> Independence:
        """Weigh proposals, -inf where there is no density.

        A state of weight w is left with probability E min(1, W / w), W being the weight of a
        proposal, so that it lasts for a geometric number of moves: this is what makes an
        independence sampler's draws dependent.
        """
        n = len(log_weights)
        finite = log_weights[np.isfinite(log_weights)]
        if len(finite) < n // 2:
            return cls(np.inf, True)
        weights = np.exp(log_weights - finite.max())
        law = weights / weights.sum()
        positive = weights > 0.0
        leave = np.zeros(n)
        with np.errstate(over="ignore"):
            leave[positive] = [np.mean(np.minimum(1.0, weights / w)) for w in weights[positive]]
        time = float(np.sum(law[positive] * (2.0 - leave[positive]) / leave[positive]))
        # Where no weight stands out, the index is large without meaning anything; of a law that is
        # far from Pareto's it may come out as NaN.
        heavy = bool(law.max() > LARGEST_WEIGHT / n)
        heavy = heavy and not pareto_index(finite) <= LARGEST_TAIL_INDEX
        return cls(time, heavy)


def try_approximation(density: ExpandedDensity, problem: Problem) -> Independence:
    """Weigh draws of the Laplace approximation by the model with its rows expanded.

    Nothing is compiled, and no row is read: joint moves cannot do better.
    """
    d = len(problem.anchor.geometry.centre)
    v = np.random.default_rng(SEED).standard_normal((APPROXIMATE, d))
    return weigh_approximation(density, problem, v, -0.5 * np.sum(v**2, axis=1))


def weigh_approximation(
    density: ExpandedDensity, problem: Problem, v: np.ndarray, log_law: np.ndarray
) -> Independence:
    """Weigh whitened parameters, shape (K, D), by the model with its rows expanded.

    Parameters
    ----------
    log_law : ndarray, shape (K,)
        Log density of the law that they were drawn from.
    """
    geometry, statistics = problem.anchor.geometry, problem.own.expansion.pack()
    log_density = [density(geometry.unwhiten(each), statistics)[0] for each in v]
    return Independence.of(np.array(log_density) - log_law)


@doing("trying joint moves")
def try_joint_moves(
    target: Target, resampling: Resampling, others: np.ndarray, limit: float, hopeless: float
) -> tuple[Independence, float]:
    """Weigh independent proposals of (theta, z), and count the rows that one reads.

    They are fewer if they read more rows than the limit, or if they vary so much that an effective
    draw reads more rows than what is hopeless: few weights make that less than it is.

    Parameters
    ----------
    limit, hopeless : float
        In rows: of all proposals together, and for an effective draw.
    """
    rng = np.random.default_rng(SEED)
    n_parameters = len(target.geometry.centre)
    chain = FireflyChain(target, resampling, new_moves(n_parameters, np.eye(3)[INDEPENDENT]))
    chain.set_others(others)
    log_weights, rows = np.full(PROPOSALS, -np.inf), 0.0
    for i in range(PROPOSALS):
        if np.isfinite(chain.start(rng, rng.standard_normal(n_parameters))):
            log_weights[i] = chain.state.log_weight[0]
        rows += chain.take_queries()
        n = i + 1
        weighed = n == PROPOSALS or (rows > limit and n >= APPROXIMATE)
        if weighed or n % EACH == 0:
            found, each = Independence.of(log_weights[:n]), rows / n
            if weighed or found.autocorrelation_time * each > hopeless:
                break
    return found, each


@dataclass(frozen=True)
class ChainTrial:
    """A short chain of some moves.

    Attributes
    ----------
    cost : float
        Of an effective draw of the slowest parameter, in units of a row that is read; infinite if
        the chain found no start, or never moved.
    gradients : float
        Evaluations of the gradient for an effective draw; infinite with the cost.
    accept : float
        Mean acceptance probability.
    ended : bool
        Whether the chain was long enough to tell; else cost and gradients are those of three draws.
    """

    cost: float
    gradients: float
    accept: float
    ended: bool


@doing("trying other moves")
def try_chain(
    target: Target,
    tuner: Tuner,
    others: np.ndarray,
    each: float,
    known: float,
    limit: float,
) -> ChainTrial:
    """Run a short chain, as long as it may pay and its cost stays below a limit.

    Costs are counts of rows and evaluations, never times: the same model is always sampled in the
    same way.

    Parameters
    ----------
    each, known, limit : float
        Cost of evaluating the density, of an effective draw by other means, and what the trial may
        cost, in units of a row that is read.
    """
    rng = np.random.default_rng(SEED)
    sampler = Sampler(target, tuner, tuner.brightness)
    chain, tuning = sampler.new_chain(), sampler.new_tuning(TUNING)
    chain.set_others(others)
    nothing = ChainTrial(np.inf, np.inf, 0.0, False)
    if not chain.start_dispersed(rng, 1.0):
        return nothing
    tuner.started(chain, rng, dispersed=True)
    # What a start costs is no part of a draw.
    chain.take_queries()
    tuner.gradients(chain)
    # The first one is where the chain begins.
    draws = np.empty((1 + TUNING + DRAWS, len(chain.state.v)))
    draws[0] = chain.state.v
    costs, gradients, accept = np.zeros((3, TUNING + DRAWS))
    for i in range(TUNING + DRAWS):
        accept[i] = chain.advance(rng, tuning.transitions, tuning.gain())
        gradients[i] = tuner.gradients(chain)
        evaluations = tuning.transitions + GRADIENT * gradients[i]
        costs[i] = evaluations * each + chain.take_queries()
        draws[i + 1] = chain.state.v
        # Of the latest draws alone: while step sizes are far from tuned, trajectories are long.
        latest = slice(max(0, i + 1 - LATEST), i + 1)
        mean = [float(each[latest].mean()) for each in (costs, gradients, accept)]
        if (i >= EARLIEST and mean[0] > known) or costs.sum() > limit:
            # Dearer than what is known even if each draw were independent, or too dear to be known:
            # as if every third one were.
            stuck = _never_moved(draws[latest.start : i + 2])
            return nothing if stuck else ChainTrial(3.0 * mean[0], 3.0 * mean[1], mean[2], False)
        if i < TUNING:
            chain, tuning = sampler.learn(chain, tuning, rng)
    if _never_moved(draws[TUNING:]):
        return nothing
    slowest = slowest_autocorrelation(draws[1 + TUNING :])
    effective = DRAWS * (1.0 - slowest) / (1.0 + slowest)
    return ChainTrial(
        float(costs[TUNING:].sum()) / effective,
        float(gradients[TUNING:].sum()) / effective,
        float(accept[TUNING:].mean()),
        True,
    )


def _never_moved(draws: np.ndarray) -> bool:
    """Whether all draws, shape (n, D), are the same."""
    return bool(np.all(draws == draws[0]))
