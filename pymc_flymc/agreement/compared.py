"""Parts of a log density, as read and as the model has them, and the points of comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.evaluation import Point, of_graph, of_reading, of_regression, of_rows
from pymc_flymc.agreement.gathering import NotGatheredError, RowsOfGraph
from pymc_flymc.agreement.values import Rounded, Values
from pymc_flymc.reading.flat import DensityGraph, Layout
from pymc_flymc.regression.regression import Regression


@dataclass(frozen=True)
class Points:
    """Points at which a model and what was read of it are compared."""

    layout: Layout
    others_layout: Layout
    graph: DensityGraph  #: As it was read.
    #: Values of the step's variables, and of the variables of other steps.
    flat: list[tuple[np.ndarray, np.ndarray]]

    @cached_property
    def read(self) -> Callable[[int], tuple[Values, list[list[Rounded | None]]]]:
        """Return `of_reading` at these points, as a function of the number of draws."""
        return cache(partial(of_reading, self.graph, self.flat))

    def at(self, some: np.ndarray) -> Points:
        """Return the points that a boolean vector selects."""
        return replace(self, flat=[at for at, one in zip(self.flat, some, strict=True) if one])

    @property
    def named(self) -> list[Point]:
        """Return the points as values by the names of variables."""
        return [
            self.layout.unravel(theta) | self.others_layout.unravel(others)
            for theta, others in self.flat
        ]

    def describe(self, t: int) -> str:
        """Return a point as text."""
        theta = self.flat[t][0]
        shown = [f"{self.layout.describe(i)} = {theta[i]:.6g}" for i in range(min(len(theta), 6))]
        return ", ".join(shown) + (", ..." if len(theta) > 6 else "")


#: If some rows cannot be evaluated alone, all are, up to this many observed values.
WHOLE = 20_000


@dataclass(frozen=True)
class ComparedRows:
    """Some rows of an observed variable."""

    name: str
    chosen: np.ndarray  #: Indices of these rows among all observed values at hand.
    #: Indices of these rows for messages: out of core, values at hand are a sample.
    numbers: np.ndarray
    n_values: int
    regressions: Sequence[Regression]
    #: For each regression, indices of the observed values that its rows belong to.
    members: Sequence[np.ndarray]
    first: int  #: Index of the first regression, in the order of the density's coefficients.
    logp: TensorVariable  #: The model's own log-likelihoods, from `freeze`.
    #: The terms of `logp` that regressions do not have, from `freeze`.
    terms: TensorVariable | None

    @property
    def what(self) -> str:
        """Return the name of this part, for messages."""
        return f"the log-likelihood of {self.name!r}"

    def evaluate(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Evaluate both sides, on all rows if some cannot be taken out of the model's graph."""
        expected = self._of(self.logp, points, draws)
        _, coefficients = points.read(draws)
        m = len(self.chosen)
        own = Values.stack([(np.zeros(m), np.zeros(m))] * len(points.flat), m)
        place = np.full(self.n_values, -1)
        place[self.chosen] = np.arange(m)
        own_coefficients = coefficients[self.first : self.first + len(self.members)]
        for part, members, w in zip(self.regressions, self.members, own_coefficients, strict=True):
            kept = np.flatnonzero(place[members] >= 0)
            design, y = part.design.rows(kept), part.y[kept]
            found = of_regression(part.likelihood, design, y, w, draws)
            own = own + found.spread(place[members[kept]], m)
        if self.terms is not None:
            own = own + self._of(self.terms, points, draws)
        return own, expected

    def expected(self, points: Points, with_checks: bool) -> Values:
        """Evaluate the model's own log-likelihoods; checks of its parameters need all rows."""
        if with_checks:
            return of_rows(self.logp, AllOfGraph(self.chosen), points.named, 0)
        return self._of(self.logp, points, 0)

    def place(self, i: int) -> str:
        """Return the index of a row as text."""
        return f" in row {self.numbers[i]:,}"

    def _of(self, graph: TensorVariable, points: Points, draws: int) -> Values:
        try:
            return of_rows(graph, RowsOfGraph(self.chosen), points.named, draws)
        except NotGatheredError:
            if self.n_values > WHOLE:
                raise
            return of_rows(graph, AllOfGraph(self.chosen), points.named, draws)


#: Number of points at which terms of all rows are added up, each in one pass over the rows.
OF_ALL_ROWS = 4


@dataclass(frozen=True)
class ComparedRest:
    """Priors, potentials, and observed variables that are not read as rows."""

    logp: TensorVariable  #: The model's own density of these, from `freeze`.
    #: Terms of rows' log-likelihoods that were read as parts of the rest, one for each row.
    terms: Sequence[TensorVariable]
    sums: Sequence[TensorVariable]  #: Sums of such terms of rows that are out of core.

    @property
    def what(self) -> str:
        """Return the name of this part, for messages."""
        return "the log density of priors, potentials and small observed variables"

    def evaluate(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Evaluate both sides, at few points if terms of all rows are to be added up."""
        few = slice(OF_ALL_ROWS if self.terms else None)
        own = points.read(draws)[0].at(few)
        for terms in self.terms:
            every = AllOfGraph(np.arange(terms.type.shape[0]))
            # Errors are drawn for the sum alone: terms that cancel here also cancel in the sum.
            own = own + -of_rows(terms, every, points.named[few], 0).sums()
        for of_stored in self.sums:
            own = own + -of_graph(of_stored, points.named[few], 0)
        return own, of_graph(self.logp, points.named[few], draws)

    def expected(self, points: Points, with_checks: bool) -> Values:
        """Evaluate the model's own side; its checks are part of the graph."""
        return of_graph(self.logp, points.named, 0)

    def place(self, i: int) -> str:
        """Return an empty string: there is only one number."""
        return ""
