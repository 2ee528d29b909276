"""Costs of kernels in units of a row that is read: counts, with constants of one machine.

With clocks instead, the same seed would not always give the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymc_flymc.bounds import Problem
from pymc_flymc.regression.design import Design
from pymc_flymc.target.target import Target

#: Seconds that a row takes, beside those for each of its numbers; and for each further predictor.
ROW, NUMBER, CLASS = 40e-9, 3e-9, 20e-9
#: Seconds for a number of the collapsed form, or of a row for each further predictor; and the
#: further cost of an evaluation, in rows.
TERM, OVERHEAD_ROWS = 1e-9, 30.0
#: A gradient and its way back to the parameters cost about so many evaluations.
GRADIENT = 2.0
#: Rows that a draw may cost even if it gains little: some four tenths of a millisecond, in which
#: three Student t regressions (california, diamonds, cep of `examples.benchmarks.real_models`) had
#: 1.2 to 7 times as many effective draws, at no more time for each.
CHEAP = 6000.0


def row_seconds(problems: Sequence[Problem]) -> float:
    """Seconds to read a row and to evaluate its likelihood: of the longest of all likelihoods."""
    return max(_row_seconds(problem.design) for problem in problems)


def evaluation_cost(problems: Sequence[Problem]) -> float:
    """Cost of evaluating the density without rows, in rows that are read in the same time."""
    terms = sum(len(problem.own.expansion.pack()) for problem in problems)
    return OVERHEAD_ROWS + terms * TERM / row_seconds(problems)


def cheap_transitions(target: Target, gradients: int) -> int:
    """Return how many conditional updates, at least one, a draw may have because they are cheap.

    Parameters
    ----------
    target : Target
    gradients : int
        Of an update; zero if it is a random walk.
    """
    if not target.subsamples:
        return 1
    each = OVERHEAD_ROWS + len(target.statistics) * TERM / ROW
    evaluation = (GRADIENT if gradients else 1.0) * each + 2.0 * target.expected_bright
    return max(1, int(CHEAP / (max(1, gradients) * evaluation)))


def _row_seconds(design: Design) -> float:
    numbers = design.X.shape[1] + design.sparse.nnz / max(design.n_rows, 1)
    further = design.n_predictors - 1
    return ROW + NUMBER * numbers + further * (CLASS + TERM * numbers)
