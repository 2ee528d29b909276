"""All that is no row: as it was read, and as the model has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.compared_points import Points
from pymc_flymc.agreement.evaluation import of_graph, of_rows
from pymc_flymc.agreement.values import Values

#: Number of points at which terms of all rows are added up, each in a pass over the rows.
OF_ALL_ROWS = 4


@dataclass(frozen=True)
class ComparedRest:
    """Priors, potentials, and observed variables that are not read as rows.

    Attributes
    ----------
    logp : TensorVariable
        From `freeze`: the model's own density of these.
    terms : sequence of TensorVariable
        Terms of rows' log-likelihoods that were read as parts of the rest, one for each row.
    sums : sequence of TensorVariable
        Sums of such terms of rows that are out of core.
    """

    logp: TensorVariable
    terms: Sequence[TensorVariable]
    sums: Sequence[TensorVariable]

    @property
    def what(self) -> str:
        """What it is, for messages."""
        return "the log density of priors, potentials and small observed variables"

    def evaluate(self, points: Points, draws: int) -> tuple[Values, Values]:
        """Evaluate both sides, at few points if terms of all rows are to be added up."""
        few = slice(OF_ALL_ROWS if self.terms else None)
        own = points.read(draws)[0].at(few)
        for terms in self.terms:
            every = AllOfGraph(np.arange(terms.type.shape[0]))
            # Errors are drawn for the sum alone: terms that cancel here also cancel in it.
            own = own + -of_rows(terms, every, points.named[few], 0).sums()
        for of_stored in self.sums:
            own = own + -of_graph(of_stored, points.named[few], 0)
        return own, of_graph(self.logp, points.named[few], draws)

    def expected(self, points: Points, with_checks: bool) -> Values:
        """Evaluate the model's own side; its checks are part of the graph."""
        return of_graph(self.logp, points.named, 0)

    def place(self, i: int) -> str:
        """Return an empty string: there is one number."""
        return ""
