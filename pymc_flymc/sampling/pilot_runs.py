"""Pilot runs of kernels before sampling: joint proposals that are weighed, and short chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.bounds import Problem
from pymc_flymc.kernels.metropolis import INDEPENDENT, new_proposal_mixture
from pymc_flymc.kernels.rescaling import reading_moves
from pymc_flymc.reporting import doing
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.sampling.costs import GRADIENT, Costs
from pymc_flymc.sampling.proposal_weights import SEED, Independence
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.tuning import WINDOWS, slowest_autocorrelation
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target

#: Draws of a pilot chain in tuning, and after it.
TUNING, DRAWS = 120, 120
#: If it ends early it is judged by this many of the latest draws, once `Tuning` has adapted the
#: number of transitions in a draw.
LATEST = 20
EARLIEST = round(WINDOWS[-2] * TUNING) + LATEST
#: Draws that count as one effective draw, if it has ended so.
CUT_OFF = 3.0

#: What a pilot run may cost: so many passes over all rows, and as many rows as can be read in turn
#: in so many seconds.
PASSES, SECONDS = 40.0, 1.0

#: Joint proposals that are weighed, at most and at least.
PROPOSALS, FEWEST = 1000, 200
#: Proposals after which it is checked again whether their weights already vary too much.
EACH = 50


def largest_cost(costs: Costs, problems: Sequence[Problem], to_beat: float = 0.0) -> float:
    """Return what a pilot run may cost: passes, and `SECONDS`, or draws at a cost to beat if more.

    Parameters
    ----------
    costs : Costs
    problems : sequence of Problem
    to_beat : float
        Cost of an effective draw by other means, in rows read in turn.
    """
    n_rows = sum(problem.design.n_rows for problem in problems)
    return PASSES * n_rows + max(SECONDS / costs.seconds, DRAWS * to_beat)


@dataclass(frozen=True)
class JointPilot:
    """Independent proposals of (theta, z) that were weighed.

    Attributes
    ----------
    weighed : Independence
    rows : float
        That one reads.
    moves : int
        Of scales, beside each transition. One takes about as long as a proposal.
    """

    weighed: Independence
    rows: float
    moves: int = 0

    def cost(self, costs: Costs) -> float:
        """Cost of an effective draw, in rows read in turn."""
        of_transition = (1 + self.moves) * (costs.evaluation + costs.drawn * self.rows)
        return self.weighed.autocorrelation_time * of_transition


@doing("trying joint moves")
def pilot_joint_moves(
    target: Target,
    resampling: Resampling,
    others: np.ndarray,
    costs: Costs,
    limit: float,
    hopeless: float,
) -> JointPilot:
    """Weigh independent proposals of (theta, z), and count the rows that one reads.

    There are fewer proposals if they cost more than the limit, or if an effective draw costs more
    than `hopeless`, which few weights can only underestimate.

    Parameters
    ----------
    limit, hopeless : float
        In rows read in turn: of all proposals together, and per effective draw.
    """
    rng = np.random.default_rng(SEED)
    n_parameters = len(target.geometry.centre)
    chain = FireflyChain(
        target, resampling, new_proposal_mixture(n_parameters, np.eye(3)[INDEPENDENT])
    )
    chain.set_others(others)
    log_weights, rows = np.full(PROPOSALS, -np.inf), 0.0
    moves = reading_moves(target.graph.scales)
    for i in range(PROPOSALS):
        log_density = chain.start(rng, rng.standard_normal(n_parameters))
        if np.isfinite(log_density):
            log_weights[i] = chain.state.log_weight[0]
        rows += chain.take_queries()
        n = i + 1
        weighed = n == PROPOSALS or (costs.drawn * rows > limit and n >= FEWEST)
        if weighed or n % EACH == 0:
            found = Independence.of(log_weights[:n])
            pilot = JointPilot(found, rows / n, moves)
            if weighed or pilot.cost(costs) > hopeless:
                break
    return pilot


@dataclass(frozen=True)
class PilotRun:
    """Result of a short chain.

    Attributes
    ----------
    cost : float
        Of an effective draw of the slowest parameter, in rows read in turn; infinite if the chain
        found no start, or never moved.
    gradients : float
        Evaluations of the gradient per effective draw; infinite with the cost.
    accept : float
        Mean acceptance probability.
    ended : bool
        Whether the chain was long enough to tell; else cost, gradients and transitions are those of
        three draws.
    transitions : float
        For an effective draw.
    """

    cost: float
    gradients: float
    accept: float
    ended: bool
    transitions: float = np.nan


@doing("trying moves")
def pilot_chain(
    sampler: Sampler,
    others: np.ndarray,
    costs: Costs,
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
    costs : Costs
    to_beat, limit : float
        Cost of an effective draw by other means, and what the pilot run may cost, in rows read in
        turn.
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
    cost, gradients, accept = np.zeros((3, TUNING + DRAWS))
    for i in range(TUNING + DRAWS):
        accept[i] = chain.advance(rng, tuning.transitions, tuning.gain())
        gradients[i] = adaptation.gradients(chain)
        evaluations = tuning.transitions + GRADIENT * gradients[i]
        rows = costs.of_queries(sampler.target, chain.take_queries(), gradients[i])
        cost[i] = evaluations * costs.evaluation + rows
        draws[i + 1] = chain.state.v
        # Means of the latest draws alone: before step sizes are tuned, trajectories are long.
        latest = slice(max(0, i + 1 - LATEST), i + 1)
        mean = [float(each[latest].mean()) for each in (cost, gradients, accept)]
        if (i >= EARLIEST and mean[0] > to_beat) or cost.sum() > limit:
            # The chain would cost more than other kernels even if each draw were independent, or it
            # costs too much for a pilot run. It is judged as if every third draw were independent.
            stuck = _never_moved(draws[latest.start : i + 2])
            if stuck:
                return nothing
            third = CUT_OFF * mean[0], CUT_OFF * mean[1], mean[2], False
            return PilotRun(*third, CUT_OFF * tuning.transitions)
        if i < TUNING:
            chain, tuning = sampler.learn(chain, tuning, rng)
    if _never_moved(draws[TUNING:]):
        return nothing
    slowest = slowest_autocorrelation(draws[1 + TUNING :])
    effective = DRAWS * (1.0 - slowest) / (1.0 + slowest)
    return PilotRun(
        float(cost[TUNING:].sum()) / effective,
        float(gradients[TUNING:].sum()) / effective,
        float(accept[TUNING:].mean()),
        True,
        DRAWS * tuning.transitions / effective,
    )


def _never_moved(draws: np.ndarray) -> bool:
    """Whether all draws, shape (n, D), are the same."""
    return bool(np.all(draws == draws[0]))
