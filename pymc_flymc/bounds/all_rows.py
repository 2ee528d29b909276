"""No bound at all: regular MCMC."""

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood, outcome


class AllRows:
    """The bound zero, under which all rows are bright: every transition reads them all.

    It is what ``bound=None`` stands for. The factor of a row is its likelihood.
    """

    name = "no"
    n_shared = 0

    def supports(self, likelihood: Likelihood) -> bool:
        """Return True: zero is below every likelihood."""
        return True

    def n_constants(self, likelihood: Likelihood) -> int:
        """Outcome and row data."""
        return 1 + len(likelihood.row_data)

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Return no statistics, and the observed values as constants."""
        n_rows = problem.design.n_rows
        constants = np.asarray(problem.y, dtype=np.float64).reshape(n_rows, -1)
        return Preparation(np.empty(0), constants, np.ones(n_rows, np.float32))

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """All rows."""
        return float(problem.design.n_rows)

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of zero: the likelihoods of rows are in their factors."""
        return pt.constant(0.0), pt.zeros((0,))

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of log L itself, in the place of the gap."""
        y = [constants[:, i] for i in range(self.n_constants(likelihood))]
        return likelihood.log_likelihood(arguments, outcome(likelihood, y))
