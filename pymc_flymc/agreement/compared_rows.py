"""Log-likelihoods of some rows: as a step computes them, and as the model does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.compared_points import Points
from pymc_flymc.agreement.evaluation import of_regression, of_rows
from pymc_flymc.agreement.gathering import NotGatheredError, RowsOfGraph
from pymc_flymc.agreement.values import Values
from pymc_flymc.regression.regression import Regression

#: If some rows cannot be evaluated alone, all are, unless there are more observed values than this.
WHOLE = 20_000


@dataclass(frozen=True)
class ComparedRows:
    """Some rows of an observed variable.

    Attributes
    ----------
    name : str
        Of the variable.
    chosen : ndarray of int
        Places of these rows among all observed values.
    numbers : ndarray of int
        Their numbers, for messages: of values out of core a sample is at hand.
    n_values : int
        Number of observed values.
    regressions : sequence of Regression
        As the step has them.
    members : sequence of ndarray of int
        For each regression, places of the observed values that its rows belong to.
    first : int
        Number of the first regression, in the order of the density's coefficients.
    logp, terms : TensorVariable
        From `freeze`: the model's own log-likelihoods, and the terms of them that regressions do
        not have.
    """

    name: str
    chosen: np.ndarray
    numbers: np.ndarray
    n_values: int
    regressions: Sequence[Regression]
    members: Sequence[np.ndarray]
    first: int
    logp: TensorVariable
    terms: TensorVariable | None

    @property
    def what(self) -> str:
        """What it is, for messages."""
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
        """Return the number of a row as text."""
        return f" in row {self.numbers[i]:,}"

    def _of(self, graph: TensorVariable, points: Points, draws: int) -> Values:
        try:
            return of_rows(graph, RowsOfGraph(self.chosen), points.named, draws)
        except NotGatheredError:
            if self.n_values > WHOLE:
                raise
            return of_rows(graph, AllOfGraph(self.chosen), points.named, draws)
