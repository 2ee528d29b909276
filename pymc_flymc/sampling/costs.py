"""Costs of kernels in units of a row that is read in turn: counts, with constants of one machine.

With clocks instead, the same seed would not always give the same draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pymc_flymc.bounds import Problem
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.regression.design import Design
from pymc_flymc.target.target import Target

#: Seconds that a row takes which is read after the one before it, beside those for each of its
#: numbers; and for each further predictor.
ROW, NUMBER, CLASS = 60e-9, 1e-9, 20e-9
#: Further seconds of a bright row, which is gathered from among all, and for each of its numbers.
GATHERED, GATHERED_NUMBER = 120e-9, 0.5e-9
#: Likewise of one whose brightness is fresh: it is drawn, gathered and weighed. With logistic
#: outcomes, 3,000 to 245,000 rows and 4 to 101 columns, rows take 60 to 130 ns in turn, bright
#: ones 180 to 410, and drawn ones 460 to 840.
DRAWN, DRAWN_NUMBER = 450e-9, 1.5e-9
#: Seconds for a number of the collapsed form, or of the geometry; and the further cost of an
#: evaluation, in rows.
TERM, OVERHEAD_ROWS = 1e-9, 30.0
#: A gradient and its way back to the parameters cost about so many evaluations.
GRADIENT = 2.0
#: Seconds that PyMC and a step take for a draw, in addition to the kernel.
PYMC_DRAW = 20e-6
#: Rows that a draw may cost even if it gains little: some four tenths of a millisecond, in which
#: three Student t regressions (california, diamonds, cep of `examples.benchmarks.real_models`) had
#: 1.2 to 7 times as many effective draws, at no more time for each.
CHEAP = 6000.0
#: Rows that a transition costs at the least if it takes long: about a millisecond.
DEAR = 16_000.0


class Costs(NamedTuple):
    """What it takes to read rows, and to evaluate the density.

    `seconds`: of a row that is read in turn. All else is in such rows. `bright`, `drawn`: of a row
    that is bright, and of one whose brightness is drawn together with theta. `evaluation`: of the
    density without rows.
    """

    seconds: float
    bright: float
    drawn: float
    evaluation: float

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Costs:
        """Return the costs for a model: those of the longest rows, where there are several."""
        seconds, numbers = max(_row(problem.design) for problem in problems)
        geometry = problems[0].anchor.geometry
        terms = sum(len(problem.own.expansion.pack()) for problem in problems)
        return cls(
            seconds,
            1.0 + (GATHERED + GATHERED_NUMBER * numbers) / seconds,
            1.0 + (DRAWN + DRAWN_NUMBER * numbers) / seconds,
            OVERHEAD_ROWS + (terms + _numbers(geometry)) * TERM / seconds,
        )

    @property
    def few_rows(self) -> float:
        """Rows that are read in turn in the time of the rest of a draw with one gradient."""
        return PYMC_DRAW / self.seconds + GRADIENT * self.evaluation


def cheap_transitions(target: Target, gradients: int) -> int:
    """Return how many conditional updates, at least one, a draw may have because they are cheap.

    `gradients`: of an update; zero if it is a random walk.
    """
    return max(1, int(CHEAP / _of_update(target, gradients))) if target.subsamples else 1


def is_dear(target: Target, gradients: int) -> bool:
    """Whether a conditional update takes long; as `cheap_transitions`."""
    return _of_update(target, gradients) > DEAR


def _of_update(target: Target, gradients: int) -> float:
    """Cost of a conditional update, in rows read in turn."""
    terms = len(target.statistics) + _numbers(target.geometry)
    each = OVERHEAD_ROWS + terms * TERM / ROW
    if target.subsamples:
        read = (1.0 + GATHERED / ROW) * target.expected_bright
    else:
        read = sum(len(part.X) for part in target.data.parts)
    return max(1, gradients) * ((GRADIENT if gradients else 1.0) * each + read)


def _numbers(geometry: Geometry) -> int:
    """Count the numbers by which coordinates are multiplied; one matrix is triangular."""
    return geometry.factor.size // 2 + geometry.coupling.size + geometry.directions.size


def _row(design: Design) -> tuple[float, float]:
    """Return the seconds of a row that is read in turn, and how many numbers it has."""
    numbers = design.X.shape[1] + design.sparse.nnz / max(design.n_rows, 1)
    further = design.n_predictors - 1
    return ROW + NUMBER * numbers + further * (CLASS + NUMBER * numbers), numbers
