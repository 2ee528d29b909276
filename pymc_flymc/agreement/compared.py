"""Parts of a log density that are compared, as read and as the model has them, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.reading import Coefficients, of_reading, of_regression
from pymc_flymc.agreement.rounding import Values
from pymc_flymc.agreement.rows_of_graph import Point, RowsOfGraph, evaluate, function_of_points
from pymc_flymc.reading.flat import DensityGraph, Layout
from pymc_flymc.regression.regression import Regression


@dataclass(frozen=True)
class Points:
    """Points at which a model and what was read of it are compared.

    `flat` has values of the step's variables, and of those of other steps.
    """

    layout: Layout
    others_layout: Layout
    graph: DensityGraph
    flat: list[tuple[np.ndarray, np.ndarray]]

    @cached_property
    def read(self) -> Callable[[int], tuple[np.ndarray, list[Coefficients]]]:
        """`of_reading` at these points, as a function of the seed of rounding errors."""
        return cache(partial(of_reading, self.graph, self.flat))

    def at(self, some: np.ndarray) -> Points:
        """Return some of the points, which a boolean vector selects."""
        return replace(self, flat=[at for at, one in zip(self.flat, some, strict=True) if one])

    @property
    def named(self) -> list[Point]:
        """Values by the names of variables."""
        return [
            self.layout.unravel(theta) | self.others_layout.unravel(others)
            for theta, others in self.flat
        ]

    def describe(self, t: int) -> str:
        """Return a point as text."""
        theta = self.flat[t][0]
        shown = [f"{self.layout.describe(i)} = {theta[i]:.6g}" for i in range(min(len(theta), 6))]
        return ", ".join(shown) + (", ..." if len(theta) > 6 else "")


#: Effect of a number that was rounded to single precision, relative to a row's log-likelihood:
#: ``pm.math.invprobit`` divides by such a square root of two.
CUT = float(np.finfo(np.float32).eps)


def _was_cut(v: Any) -> bool:
    """Return whether a number, or its reciprocal, was rounded to single precision."""
    if (
        not isinstance(v, Constant)
        or getattr(v.type, "dtype", "")[:5] != "float"
        or np.size(v.data) != 1
    ):
        return False
    with np.errstate(all="ignore"):
        numbers = np.concatenate([np.ravel(v.data), 1.0 / np.ravel(v.data)], dtype=np.float64)
        short = np.float32(numbers).astype(np.float64)
        is_single = np.abs(short - numbers) <= np.finfo(np.float64).eps * np.abs(numbers)
        # What is written, such as 0.5, has few bits.
        return bool((is_single & (np.frexp(short)[0] * 2.0**12 % 1.0 != 0.0)).any())


@dataclass(frozen=True)
class ComparedRows:
    """Some rows of an observed variable.

    `chosen` are their places among all observed values, `numbers` those in messages: of values out
    of core a sample is at hand. For each regression `members` has the places of the observed values
    that its rows belong to, and `first` is the first one's number among the density's coefficients.
    `logp` and `terms`, from `freeze`, are the model's log-likelihoods, and what regressions do not
    have of them.
    """

    what: str
    chosen: np.ndarray
    numbers: np.ndarray
    n_values: int
    regressions: Sequence[Regression]
    members: Sequence[np.ndarray]
    first: int
    logp: TensorVariable
    terms: TensorVariable | None

    def evaluate(self, points: Points, draws: int, whole: bool = False) -> tuple[Values, Values]:
        """Evaluate both sides; the model's graph of these rows alone, or the whole one."""
        own = Values.of(lambda seed: self._own(points, seed, whole), draws)
        expected = Values.of(lambda seed: self._of_logp(points.named, seed, whole), draws)
        cut = CUT * any(map(_was_cut, graph_inputs([self.logp])))
        with np.errstate(invalid="ignore"):
            errors = expected.errors + cut * (1.0 + np.abs(expected.values))
        return own, Values(expected.values, errors) if cut else expected

    def _own(self, points: Points, seed: int, whole: bool) -> np.ndarray:
        _, coefficients = points.read(seed)
        own, m = np.zeros((len(points.flat), len(self.chosen))), len(self.chosen)
        place = np.full(self.n_values, -1)
        place[self.chosen] = np.arange(m)
        own_coefficients = coefficients[self.first : self.first + len(self.members)]
        for part, members, w in zip(self.regressions, self.members, own_coefficients, strict=True):
            kept = np.flatnonzero(place[members] >= 0)
            found = of_regression(part.likelihood, part.design.rows(kept), part.y[kept], w, seed)
            own += [np.bincount(place[members[kept]], each, m) for each in found]
        return own if self.terms is None else own + self._of_terms(points.named, seed, whole)

    @cached_property
    def _of_logp(self) -> Callable[..., np.ndarray]:
        return rows_of(self.logp, self.chosen)

    @cached_property
    def _of_terms(self) -> Callable[..., np.ndarray]:
        assert self.terms is not None
        return rows_of(self.terms, self.chosen)

    def expected(self, points: Points, with_checks: bool) -> np.ndarray:
        """Evaluate the model's own log-likelihoods; checks of its parameters need all rows."""
        if with_checks:
            found = evaluate(function_of_points(self.logp), points.named)
            return found.reshape(len(found), -1)
        return self._of_logp(points.named)


def rows_of(graph: TensorVariable, chosen: np.ndarray) -> Callable[..., np.ndarray]:
    """Return `RowsOfGraph` of values, which are numbered in C order if the graph is a table."""
    if graph.ndim == 1:
        return RowsOfGraph(graph, chosen)
    rows, *others = np.unravel_index(chosen, graph.type.shape)
    rows, at = np.unique(rows, return_inverse=True)
    of_rows = RowsOfGraph(graph, rows)
    index: list[Any] = [slice(None), at, *others]
    return lambda *which: of_rows(*which)[tuple(index)]


@dataclass(frozen=True)
class ComparedRest:
    """Priors, potentials, and observed variables that are not read as rows: `logp`, from `freeze`.

    `terms` are those of rows' log-likelihoods that were read as parts of the rest, one for each
    row, and `sums` the sums of such terms of rows that are out of core.
    """

    what: ClassVar[str] = "the log density of priors, potentials and small observed variables"
    logp: TensorVariable
    terms: Sequence[TensorVariable]
    sums: Sequence[TensorVariable]

    def evaluate(self, points: Points, draws: int, whole: bool = False) -> tuple[Values, Values]:
        """Evaluate both sides."""
        of_rows = np.zeros((len(points.flat), 1))
        for terms in [*self.terms, *self.sums]:
            # Errors are drawn for the sum alone: terms that cancel here also cancel in it.
            found = evaluate(function_of_points(terms), points.named)
            of_rows += found.reshape(len(found), -1).sum(axis=1, keepdims=True)
        logp = function_of_points(self.logp)
        return (
            Values.of(lambda seed: points.read(seed)[0] - of_rows, draws),
            Values.of(lambda seed: evaluate(logp, points.named, seed)[:, None], draws),
        )

    def expected(self, points: Points, with_checks: bool) -> np.ndarray:
        """Evaluate the model's own side; its checks are part of the graph."""
        return evaluate(function_of_points(self.logp), points.named)[:, None]
