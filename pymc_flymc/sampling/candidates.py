"""Kernels that may sample a model, and what an effective draw usually costs under each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.bounds import AllRows, Bound, ExpansionBound
from pymc_flymc.kernels.rescaling import reading_moves
from pymc_flymc.sampling.adaptation import HAMILTONIAN, JOINT, SURROGATE
from pymc_flymc.sampling.bound_choice import (
    estimate_kept,
    estimate_rows,
    joint_bound,
    tightest,
    valid_bounds,
)
from pymc_flymc.sampling.costs import GRADIENT, Costs
from pymc_flymc.sampling.proposal_weights import pilot_approximation
from pymc_flymc.sampling.sampler import Sampler, SamplingTask
from pymc_flymc.target.target import KernelSpec

#: Gradients per effective draw of trajectories, where nothing holds them back.
GRADIENTS = 5.0
#: Usual cost of moves by weights, over the cost if all goes well: weights vary more than the
#: Laplace approximation shows.
USUAL = 4.0
#: Shares of the rows that a surrogate may treat exactly.
SHARES = (0.0, 1 / 512, 1 / 128, 1 / 32, 1 / 8)


@dataclass(frozen=True)
class Candidate:
    """A kernel that may sample a model. Costs are in rows read in turn.

    Attributes
    ----------
    spec : KernelSpec
    bounds : sequence of Bound
        One for each likelihood.
    gradients, rows : float
        Costs of an effective draw if all goes well: of its gradients, and of all else.
    over : float
        Usual cost of an effective draw, over that.
    n_exact : int
        Rows that a surrogate treats exactly.
    """

    spec: KernelSpec
    bounds: Sequence[Bound]
    gradients: float
    rows: float = 0.0
    over: float = 1.0
    n_exact: int = 0

    @property
    def usual(self) -> float:
        """Usual cost of an effective draw."""
        return self.over * (self.rows + self.gradients)

    @property
    def reads_all(self) -> bool:
        """Whether it reads all rows."""
        return any(isinstance(bound, AllRows) for bound in self.bounds)

    @property
    def by_expansion(self) -> bool:
        """Whether its bounds are expansions, which tails may exceed."""
        return all(isinstance(bound, ExpansionBound) for bound in self.bounds)

    def sampler(self, task: SamplingTask) -> Sampler:
        """Build what samples by it."""
        return task.sampler(self.bounds, self.spec.adaptation(), n_exact=self.n_exact)


class Candidates:
    """Kernels that may sample a model, by what they would read if all goes well.

    Parameters
    ----------
    task : SamplingTask
        The bounds that it asks for do not count: kernels have the best ones for each.

    Attributes
    ----------
    n_rows : int
        Of all likelihoods.
    costs : Costs
    """

    def __init__(self, task: SamplingTask) -> None:
        self.task, self.problems = task, task.problems
        self.n_rows = sum(problem.design.n_rows for problem in self.problems)
        self.costs = Costs.of(self.problems)

    def all(self) -> list[Candidate]:
        """Return all that may sample the model."""
        taylor = joint_bound(self.problems)
        fresh = [] if taylor is None else [self.joint(taylor), *self.surrogates(taylor)]
        return [*self.conditional(), *fresh]

    def conditional(self) -> list[Candidate]:
        """Return trajectories given the brightness, under the tightest bounds, and on all rows.

        The former are left out if they promise too little over the latter.
        """
        bounds = [tightest(valid_bounds(problem), problem) for problem in self.problems]
        bright = sum(map(estimate_rows, bounds, self.problems))
        # Each bright row holds the parameters where they are, with about twice the posterior's
        # precision in the row's direction: many bright rows hold back any conditional update.
        held_back = max(1.0, bright / len(self.problems[0].anchor.theta))
        each = GRADIENT * self.costs.evaluation
        given = GRADIENTS * held_back * (each + 2.0 * self.costs.bright * bright)
        some = Candidate(HAMILTONIAN, bounds, given)
        none = [AllRows()] * len(self.problems)
        every = Candidate(HAMILTONIAN, none, GRADIENTS * (each + self.n_rows))
        if bright < 1.0:  # trajectories are the same: to read all rows never pays
            return [some, replace(every, over=np.inf)]
        # Trajectories on all rows have no surprises. Others must promise a good deal more.
        return [some, every] if USUAL * some.usual <= every.usual else [every]

    def joint(self, taylor: ExpansionBound) -> Candidate:
        """Return joint updates of (theta, z)."""
        # Their weights vary at least as much as those of the Laplace approximation alone.
        density = expanded_density(self.task.graph, self.task.others)
        weighed = pilot_approximation(density, self.problems[0].anchor)
        cost = self.of_proposal(estimate_rows(taylor, self.problems[0]))
        return Candidate(JOINT, [taylor], 0.0, weighed.autocorrelation_time * cost, USUAL)

    def of_proposal(self, rows: float) -> float:
        """Return the cost of a joint proposal that reads so many rows, and of moves of scales.

        A move of a scale takes about as long as a proposal, and each proposal has as many.
        """
        moves = 1 + reading_moves(self.task.graph.scales)
        return moves * (self.costs.evaluation + self.costs.drawn * rows)

    def surrogates(self, taylor: ExpansionBound) -> list[Candidate]:
        """Return surrogates with more and more exact rows."""
        (problem,) = self.problems
        rows, kept = estimate_rows(taylor, problem), estimate_kept(taylor, problem)
        each, drawn = GRADIENT * self.costs.evaluation, self.costs.drawn
        # Kept rows are exact in any case. As if exact rows were always bright otherwise.
        return [
            Candidate(
                SURROGATE,
                [taylor],
                GRADIENTS * (each + n_exact),
                drawn * max(rows - n_exact, 0.0),
                USUAL,
                n_exact,
            )
            for n_exact in sorted({max(kept, int(share * self.n_rows)) for share in SHARES})
        ]

    def slowed(self, candidate: Candidate, slower: float, rows: float) -> Candidate:
        """Return a candidate as it is after joint moves, which read rows, were slower than usual.

        Log weights add up over rows. A share of the rows has about this share of their variance, by
        whose exponential transitions are more.
        """
        if candidate.spec is not SURROGATE or not candidate.rows:
            return candidate
        share = min(candidate.rows / (self.costs.drawn * max(rows, 1.0)), 1.0)
        return replace(candidate, rows=candidate.rows * max(1.0, slower) ** share)
