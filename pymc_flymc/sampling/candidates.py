"""Kernels that may sample a model, and the least that an effective draw costs under each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.bounds import Bound, ExpansionBound
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
from pymc_flymc.sampling.sampler import Sampler
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.kernel_spec import KernelSpec

#: Gradients per effective draw at the fewest: also of all rows, where no pilot run of trajectories
#: says better.
GRADIENTS = 5.0
#: Usual cost of moves by weights, over the least; what promises less than this over all rows is not
#: tried. Pilot runs find less, about two (`examples.benchmarks.pilots`): short chains hardly show
#: what makes such moves slow. Of a centred horseshoe, which `examples.benchmarks.real` has, they
#: find surrogate and conditional Hamiltonian moves about as dear; effective draws by surrogate ones
#: took 1.8 times as long, with another seed over 5.
USUAL = 4.0
#: Shares of the rows that a surrogate may treat exactly.
SHARES = (0.0, 1 / 512, 1 / 128, 1 / 32, 1 / 8)


@dataclass
class Candidate:
    """A kernel that may sample the model.

    Attributes
    ----------
    spec : KernelSpec
    what : str
    build : callable
        Returns its `Sampler`, with default settings.
    rows : float
        Cost of an effective draw without gradients, in rows read in turn, if all goes well.
    by_expansion : bool
        Whether its bounds are expansions.
    gradient, gradients : float
        Cost of a gradient, and their number per effective draw if all goes well.
    held_back : float
        How many times as many gradients that is as without bright rows.
    over_least : float
        What an effective draw usually costs, over the least.
    as_all_rows : bool
        Whether its trajectories are those of Hamiltonian Monte Carlo on all rows, for no more than
        one row is usually bright.
    """

    spec: KernelSpec
    what: str
    build: Callable[[], Sampler]
    rows: float = 0.0
    by_expansion: bool = True
    gradient: float = 0.0
    gradients: float = 0.0
    held_back: float = 1.0
    over_least: float = USUAL
    as_all_rows: bool = False
    cost: float = np.inf
    sampler: Sampler | None = None

    @property
    def least(self) -> float:
        """Cost of an effective draw, in rows read in turn, if all goes well."""
        return self.rows + self.gradients * self.gradient

    @property
    def usual(self) -> float:
        """Cost of an effective draw, in rows read in turn, as it usually goes."""
        return self.over_least * self.least

    def built(self) -> Sampler:
        """Return the sampler, built once."""
        if self.sampler is None:
            self.sampler = self.build()
        return self.sampler


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

    @cached_property
    def taylor(self) -> ExpansionBound | None:
        """The bound for joint moves, if there is one."""
        return joint_bound(self.problems)

    def all(self) -> list[Candidate]:
        """Return all that may sample the model."""
        found, taylor = [self.conditional()], self.taylor
        if taylor is not None:
            rows = estimate_rows(taylor, self.problems[0])
            kept = estimate_kept(taylor, self.problems[0])
            found += [self.joint(taylor, rows), *self.surrogates(rows, kept, taylor)]
        return found

    def conditional(self) -> Candidate:
        """Return trajectories given the brightness, under the tightest bounds for these."""
        bounds = [tightest(valid_bounds(problem), problem) for problem in self.problems]
        pairs = zip(bounds, self.problems, strict=True)
        bright = sum(estimate_rows(*pair) for pair in pairs)
        n_parameters = len(self.problems[0].anchor.theta)
        # Each bright row holds the parameters where they are, with about twice the posterior's
        # precision in the row's direction: many bright rows hold back any conditional update.
        held_back = max(1.0, bright / n_parameters)
        each, read = self.costs.evaluation, 2.0 * self.costs.bright * bright
        return Candidate(
            HAMILTONIAN,
            "conditional Hamiltonian moves",
            lambda: self.build(bounds, HAMILTONIAN),
            by_expansion=all(isinstance(bound, ExpansionBound) for bound in bounds),
            gradient=GRADIENT * each + read,
            gradients=GRADIENTS * held_back,
            held_back=held_back,
            over_least=1.0,
            as_all_rows=bright < 1.0,
        )

    def joint(self, taylor: ExpansionBound, rows: float) -> Candidate:
        """Return joint updates of (theta, z), which read so many rows."""
        # Their weights vary at least as much as those of the Laplace approximation alone.
        density = expanded_density(self.task.graph, self.task.others)
        weighed = pilot_approximation(density, self.problems[0].anchor)
        # A move of a scale takes about as long as a transition, and each has as many.
        moves = 1 + reading_moves(self.task.graph.scales)
        each = self.costs.evaluation + self.costs.drawn * rows
        cost = weighed.autocorrelation_time * moves * each
        return Candidate(JOINT, "joint moves", lambda: self.build([taylor], JOINT), cost)

    def surrogates(self, rows: float, kept: int, taylor: ExpansionBound) -> list[Candidate]:
        """Return surrogates with more and more exact rows.

        Parameters
        ----------
        rows : float
            Those that joint updates would read.
        kept : int
            Rows that are kept bright: they are exact in any case.
        taylor : ExpansionBound
        """
        found = []
        for n_exact in sorted({max(kept, int(share * self.n_rows)) for share in SHARES}):
            found.append(
                Candidate(
                    SURROGATE,
                    f"surrogate moves with {n_exact:,} exact rows",
                    lambda n=n_exact: self.build([taylor], SURROGATE, n),  # type: ignore[misc]
                    # As if the exact rows were always bright otherwise, which is the best case.
                    self.costs.drawn * max(rows - n_exact, 0.0),
                    gradient=GRADIENT * self.costs.evaluation + n_exact,
                    gradients=GRADIENTS,
                )
            )
        return found

    def build(self, bounds: Sequence[Bound], spec: KernelSpec, n_exact: int = 0) -> Sampler:
        """Build what samples by a kernel under bounds, one for each likelihood."""
        return self.task.sampler(bounds, spec.adaptation(), n_exact=n_exact)
