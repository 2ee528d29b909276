"""The base class of bounds that are expansions of the likelihood less a rate."""

from abc import abstractmethod
from typing import Any, TypeGuard, cast

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Bound, Graph, Graphs, Preparation, Problem
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood


class ExpansionBound(Bound):
    """Base of bounds B_n = E_n exp(-o_n): an expansion E_n of the likelihood, less a rate o_n.

    `collapsed` returns sum_n log E_n. The rates are sums of what the rows share, times constants of
    the row, in the places that `kernels.layout` says: kernels add them up over the dark rows. A row
    may be kept bright: its rate is infinite, B_n = 0, and L_n / E_n its factor in the density.
    """

    #: Number of sums that a row makes of shared numbers, see `TaylorInParts`: further arguments of
    #: its gap. Joint moves draw brightness from shared numbers alone, without such sums.
    n_sums: int = 0

    @property
    def n_common(self) -> int:
        """Number of shared numbers that a row's gap depends on directly: all by default."""
        return self.n_shared

    @abstractmethod
    def prepare(
        self, problem: Problem, log_factor: NativeFunction, keep: float = 1.0
    ) -> Preparation:
        """Compute the statistics and the rows' constants.

        Parameters
        ----------
        problem, log_factor
            As of `Bound.prepare`.
        keep : float
            Rows that are more often bright than this, as expected, are kept bright.
        """

    @abstractmethod
    def expected_rows(self, problem: Problem, stride: int, above: float = 0.0) -> float:
        """As for `Bound`, but only of rows whose probability of being bright exceeds `above`."""

    @abstractmethod
    def remainder(self, likelihood: Likelihood, arguments: Graphs, constants: Graph) -> Graph:
        """Graph of log L_n - log E_n, of either sign, element by element.

        Arguments are those of `gap`.
        """

    def is_kept_bright(self, constants: Graph) -> Graph:
        """Graph of whether the rate of a row is infinite, element by element."""
        return cast(Graph, pt.isinf(constants[:, ROW.near]))

    def rate(self, constants: Graph, arguments: Graphs, shared: Graphs) -> Graph:
        """Graph of o_n, at least the absolute remainder: the gap is the sum of both.

        So the gap is at most twice the rate. Brightness given theta is drawn by the rate. For rows
        that are kept bright the graph may give any finite number. By default the rate is a sum of
        two powers of a radius.
        """
        near = finite(constants[:, ROW.near]) * shared[POWERS.near]
        beyond = constants[:, ROW.beyond] * shared[POWERS.beyond]
        return cast(Graph, near + beyond)

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the remainder of the expansion plus its rate."""
        rate = self.rate(constants, arguments, shared)
        gap: Any = self.remainder(likelihood, arguments, constants) + rate
        return cast(Graph, pt.switch(self.is_kept_bright(constants), np.inf, gap))


def is_for_joint_moves(bound: object) -> TypeGuard[ExpansionBound]:
    """Return whether joint moves of parameters and brightness can be made under a bound."""
    return isinstance(bound, ExpansionBound) and bound.n_sums == 0


def finite(multiplier: Graph) -> Graph:
    """Graph of a power's multiplier, with infinity replaced by zero.

    So the graph has finite derivatives even where its value is not used.
    """
    return cast(Graph, pt.switch(pt.isinf(multiplier), 0.0, multiplier))
