"""Bounds for a model's likelihoods, and what is said of the rows that moves read under them."""

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
from pymc_flymc.order import first_largest
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.reporting import count
from pymc_flymc.sampling.task import SamplingTask
from pymc_flymc.target.building import MOSTLY
from pymc_flymc.target.target import TargetPart

#: End of messages: in joint moves the Taylor bound has a single radius for all coefficients.
WITH_EFFECTS = f" with more than {LARGEST_DENSE} coefficients, of groups or sparse columns"
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


def joint_moves_read(problem: Problem, part: TargetPart) -> str:
    """Say what joint moves read, for the log."""
    return (
        f"joint moves read {count(part.expected_bright)} of {problem.design.n_rows:,} rows of "
        f"{problem.name!r} each ({part.bound.name} bound)"
    )


def bright_rows_read(problem: Problem, part: TargetPart) -> str:
    """Say what conditional moves read, for the log: their name comes before it."""
    return (
        f"read the bright rows, {count(part.expected_bright)} of {problem.design.n_rows:,} "
        f"of {problem.name!r} ({part.bound.name} bound)"
    )


def valid_bounds(problem: Problem) -> list[Bound]:
    """Bounds on a likelihood, and for its design."""
    supported = [bound for bound in BOUNDS if bound.supports(problem.likelihood)]
    valid = [each for bound in supported for each in forms(bound, problem)]
    if not valid:
        raise ValueError(
            f"no bound of this package is one on {problem.likelihood.name} likelihoods"
            f"{WITH_EFFECTS * (not problem.design.format.one_radius)}; give the step a bound="
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
