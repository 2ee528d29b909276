"""Refuse a model of which something else was read than it says.

Nothing here knows how a model is read. At a thousand rows and some points the log-likelihoods of
rows, as a step computes them, are compared with those of the model's own graph, and so is all else:
priors, Jacobians, potentials. A difference beyond the rounding errors of both sides is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from pymc.model.core import Model
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.cells import CellsOfGraph
from pymc_flymc.agreement.evaluation import (
    Point,
    of_reading,
    of_regression,
    of_rest,
    of_rows,
)
from pymc_flymc.agreement.gathering import AllOfGraph, NotGatheredError, RowsOfGraph
from pymc_flymc.agreement.rows import ROWS, choose_rows
from pymc_flymc.agreement.values import Values, disagreement
from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import freeze
from pymc_flymc.reading.flat import DensityGraph, Layout
from pymc_flymc.reading.model import ModelReading
from pymc_flymc.reading.observed import size_of
from pymc_flymc.reading.variables import value_shapes
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing, log

__all__ = ["check_agreement"]

#: Distances from the anchor, in units of the Laplace approximation.
SCALES = (0.0, 1.0, 1.0, 3.0, 10.0)
#: Draws of rounding errors: of all comparisons, and of one that has found a difference.
FEW, MANY = 3, 30
#: Points at which terms of all rows are added up: a pass over them each.
OF_ALL_ROWS = 4
#: Observed values at most of which all are evaluated where a few cannot be.
WHOLE = 20_000


@dataclass(frozen=True)
class Points:
    """Where a model and what was read of it are compared.

    Attributes
    ----------
    layout, others_layout : Layout
    flat : list of (ndarray, ndarray)
        The step's variables, and those of other steps.
    """

    layout: Layout
    others_layout: Layout
    flat: list[tuple[np.ndarray, np.ndarray]]

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


class Comparison(Protocol):
    """A part of the log density that is computed in two ways."""

    @property
    def what(self) -> str:
        """What it is, for messages."""

    def row(self, i: int) -> str:
        """Return which of the rows compared is number i, for messages."""

    def __call__(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Return what was read, and the model's own, with so many draws of rounding errors."""


@dataclass(frozen=True)
class OfRows:
    """Some rows of an observed variable.

    Attributes
    ----------
    name : str
    rows : ndarray of int
        Places of these among the values that there are.
    numbers : ndarray of int
        Numbers of all of these, for messages.
    regressions : sequence of Regression
        As the step has them.
    members : sequence of ndarray of int
        Numbers of the observed values that the rows of each belong to.
    first : int
        Number of the first of them, in the order of the density's coefficients.
    graph : DensityGraph
    logp, terms : TensorVariable
        From `freeze`: the model's own log-likelihoods, and the part of them that was not left to
        regressions.
    """

    name: str
    rows: np.ndarray
    numbers: np.ndarray
    regressions: Sequence[Regression]
    members: Sequence[np.ndarray]
    first: int
    graph: DensityGraph
    logp: TensorVariable
    terms: TensorVariable | None

    @property
    def what(self) -> str:
        """The variable."""
        return f"the log-likelihood of {self.name!r}"

    def row(self, i: int) -> str:
        """Return the number of the observed value."""
        return f" in row {self.numbers[self.rows[i]]:,}"

    def __call__(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Evaluate both; all rows if some cannot be taken out of the model's graph."""
        expected = self._of(self.logp, points, draws)
        _, coefficients = of_reading(self.graph, points.flat, draws)
        m = len(self.rows)
        own = Values(np.zeros((len(points.flat), m)), np.zeros((len(points.flat), m)))
        place = np.full(len(self.numbers), -1)
        place[self.rows] = np.arange(m)
        own_coefficients = coefficients[self.first : self.first + len(self.members)]
        for part, members, w in zip(self.regressions, self.members, own_coefficients, strict=True):
            kept = np.flatnonzero(place[members] >= 0)
            design, y = part.design.rows(kept), part.y[kept]
            found = of_regression(part.likelihood, design, y, w, draws)
            own = own + found.spread(place[members[kept]], m)
        if self.terms is not None:
            own = own + self._of(self.terms, points, draws)
        return own, expected

    def _of(self, graph: TensorVariable, points: Points, draws: int) -> Values:
        some = RowsOfGraph(self.rows)
        if graph.ndim > 1:
            some = CellsOfGraph(self.rows, graph.type.shape)
        try:
            return of_rows(graph, some, points.named, draws)
        except NotGatheredError:
            if len(self.numbers) > WHOLE:
                raise
            return of_rows(graph, AllOfGraph(self.rows), points.named, draws)


@dataclass(frozen=True)
class OfAllElse:
    """What a model has beside the rows that are subsampled.

    Attributes
    ----------
    model : Model
    taken : sequence of TensorVariable
        The observed variables of these rows.
    shapes : dict
        Of value variables.
    graph : DensityGraph
    terms : sequence of TensorVariable
        What it has taken over of their rows; from `freeze`.
    """

    model: Model
    taken: Sequence[TensorVariable]
    shapes: dict[Any, Any]
    graph: DensityGraph
    terms: Sequence[TensorVariable]

    what = "the log density of priors, potentials and small observed variables"

    def row(self, i: int) -> str:
        """Return nothing: there is one number."""
        return ""

    def __call__(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Evaluate both."""
        if self.terms:
            points = replace(points, flat=points.flat[:OF_ALL_ROWS])
        own, _ = of_reading(self.graph, points.flat, draws)
        for terms in self.terms:
            every = AllOfGraph(np.arange(terms.type.shape[0]))
            # What cancels in these terms does in their sum, whose errors are known.
            own = own - of_rows(terms, every, points.named, 0).sums()
        return own, of_rest(self.model, self.taken, self.shapes, points.named, draws)


@doing("comparing what was read with the model itself")
def check_agreement(
    model: Model,
    reading: ModelReading,
    graph: DensityGraph,
    anchor: Anchor,
    layouts: tuple[Layout, Layout],
    start: np.ndarray,
    others: np.ndarray,
) -> None:
    """Compare what was read of a model with the model itself.

    Parameters
    ----------
    model : Model
    reading : ModelReading
    graph : DensityGraph
        What the step makes of it.
    anchor : Anchor
    layouts : (Layout, Layout)
        Of the step's variables, and of those of other steps.
    start, others : ndarray, shapes (D,) and (F,)
        Both at the initial point.

    Raises
    ------
    UnsupportedModelError
        If they differ by more than rounding.
    """
    rng = np.random.default_rng(20261123)
    layout, n = layouts[0], len(start)
    thetas = [anchor.geometry.unwhiten(s * rng.standard_normal(n)) for s in SCALES]
    thetas += [start, start + rng.uniform(-1.0, 1.0, n)]
    points = Points(*layouts, [(layout.round(theta), others) for theta in thetas])
    for comparison in _comparisons(model, reading, graph, anchor, rng):
        try:
            _compare(comparison, points)
        except NotGatheredError as error:
            log.info(f"{comparison.what} could not be compared with the model's own: {error}")


def _comparisons(
    model: Model,
    reading: ModelReading,
    graph: DensityGraph,
    anchor: Anchor,
    rng: np.random.Generator,
) -> Iterator[Comparison]:
    shapes, first, all_terms = value_shapes(model), 0, []
    for rv, read in reading.taken.items():
        own = slice(first, first + len(read.parts))
        regressions: Sequence[Regression] = reading.regressions[own]
        members, terms = [part.rows for part in read.parts], None
        logp, stored = model.logp(vars=[rv], sum=False)[0], regressions[0].design.stored
        if stored is None:
            numbers, logp = np.arange(size_of(model, rv)), freeze(logp, shapes)
        else:  # out of core: a sample of them, in the model's own containers
            sample = stored.sample(max(1, stored.n_rows // (2 * ROWS)))
            numbers, logp = sample.numbers, freeze(logp, shapes, sample.containers())
            regressions = [replace(regressions[0], design=sample.design, y=sample.y)]
            members = [np.arange(len(numbers))]
        if read.terms is not None:
            terms = freeze(read.terms, shapes)
            all_terms.append(terms)
        rows = choose_rows(regressions, members, anchor.parts[own], len(numbers), rng)
        yield OfRows(str(rv.name), rows, numbers, regressions, members, first, graph, logp, terms)
        first = own.stop
    yield OfAllElse(model, list(reading.taken), shapes, graph, all_terms)


def _compare(comparison: Comparison, points: Points) -> None:
    found = disagreement(*comparison(points, FEW))
    if found is None:
        return
    own, expected = comparison(points, MANY)
    found = disagreement(own, expected)
    if found is None:
        return
    t, base, i = found
    at, base_at = points.describe(t), points.describe(base)
    raise UnsupportedModelError(
        f"{comparison.what} is read as another one than the model's own{comparison.row(i)}. At "
        f"({at}) the model's is {expected.values[t, i]:.12g}, and Firefly reads "
        f"{own.values[t, i]:.12g}; at ({base_at}) they are {expected.values[base, i]:.12g} and "
        f"{own.values[base, i]:.12g}, and both must change by the same. If the likelihood is close "
        "to one of a supported family and not of it, write it as one of your own, see "
        "register_likelihood; else please report this model"
    )
