"""Bounds for likelihoods, and the line of the log on the rows that moves read under them."""

from collections.abc import Sequence

import numpy as np

from pymc_flymc.bounds import (
    BOUNDS,
    Bound,
    ExpansionBound,
    Problem,
    Taylor,
    TaylorInParts,
    is_for_joint_moves,
)
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.order import first_largest
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.building import MOSTLY
from pymc_flymc.target.target import Target

#: End of messages: in joint moves the Taylor bound has a single radius for all coefficients.
WITH_EFFECTS = f" with more than {LARGEST_DENSE} coefficients, of groups or sparse columns"
#: What moves are called in the log, by the name of their kernel; of others, by that name.
MOVES = {
    "joint": "joint moves",
    "surrogate": "surrogate moves",
    "hamiltonian": "conditional Hamiltonian moves",
    "metropolis": "conditional Metropolis moves",
    "local": "local sweeps",
}
#: Rows looked at for a first estimate.
SAMPLE_ROWS = 20_000


def conditional_bounds(task: SamplingTask) -> list[Bound]:
    """Return the bounds of a kernel of conditional updates, by default tangent bounds."""
    return [
        tightest(
            valid_bounds(problem) if isinstance(asked, str) else _forms_of(asked, problem), problem
        )
        for problem, asked in zip(task.problems, task.bounds, strict=True)
    ]


def log_rows_read(problems: Sequence[Problem], target: Target) -> None:
    """Log how many rows an update reads, of how many of each likelihood."""
    spec = target.spec
    moves = MOVES.get(spec.name, f"conditional {spec.name} moves")
    for problem, part in zip(problems, target.parts, strict=True):
        rows, n_rows = count(part.expected_bright), f"{problem.design.n_rows:,}"
        if spec.fresh:
            read = f"{rows} of {n_rows} rows of {problem.name!r} each"
        else:
            read = f"the bright rows, {rows} of {n_rows} of {problem.name!r}"
        exact = target.data.exact
        of_exact = "" if exact is None else f", and {len(exact.X):,} in each step of trajectories"
        log.info(f"{moves} read {read} ({part.bound.name} bound){of_exact}")


def valid_bounds(problem: Problem) -> list[Bound]:
    """Bounds on a likelihood, and for its design."""
    supported = [bound for bound in BOUNDS if bound.supports(problem.likelihood)]
    valid = [each for bound in supported for each in forms(bound, problem)]
    if not valid:
        raise UnsupportedModelError(
            f"no bound of this package is one on {problem.likelihood.name} likelihoods"
            f"{WITH_EFFECTS * (not problem.design.format.one_radius)}: give the step bound=None, "
            "which reads all rows"
        )
    return valid


def forms(bound: Bound, problem: Problem) -> list[Bound]:
    """Return the forms that a bound takes for a design: `Taylor` has one for conditional moves.

    With more effects of groups than one radius serves, that form is the only one.
    """
    one_radius = problem.design.format.one_radius
    found = [bound] if one_radius or not is_for_joint_moves(bound) else []
    expands = isinstance(bound, Taylor) and bound.order == 2
    if expands and TaylorInParts.fits(problem.likelihood, problem.design):
        found.append(TaylorInParts(problem.design.n_sparse))
    return found


def _forms_of(asked: Bound, problem: Problem) -> list[Bound]:
    """Return the forms of a bound that a user asked for, or the bound, which refuses the design."""
    return forms(asked, problem) or [asked]


def tightest(valid: Sequence[Bound], problem: Problem) -> Bound:
    """Return the bound for conditional moves that leaves the fewest rows bright.

    Taylor bounds are used if there is no other. They leave fewer rows bright on average. But where
    effects are far from the anchor, ever more rows are bright, and hold the effects there.
    """
    conditional = [bound for bound in valid if not isinstance(bound, ExpansionBound)]
    conditional = conditional or list(valid)
    if len(conditional) == 1:
        return conditional[0]
    expected = np.array([estimate_rows(bound, problem) for bound in conditional])
    return conditional[first_largest(-expected)]


def estimate_rows(bound: Bound, problem: Problem) -> float:
    """Rows expected to be bright over the Laplace approximation, from a sample of rows."""
    return bound.expected_rows(problem, _stride(problem))


def estimate_kept(bound: ExpansionBound, problem: Problem) -> int:
    """Rows expected to be kept bright, from a sample of rows."""
    return int(bound.expected_rows(problem, _stride(problem), MOSTLY))


def _stride(problem: Problem) -> int:
    return max(1, problem.design.n_rows // SAMPLE_ROWS)


def joint_bound(problems: Sequence[Problem]) -> ExpansionBound | None:
    """Return the bound for joint moves, if there is one: they are for one likelihood."""
    if len(problems) > 1:
        return None
    return next(filter(is_for_joint_moves, valid_bounds(problems[0])), None)
