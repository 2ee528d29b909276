"""The protocols of bounds, and the problem that a bound is prepared for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods import Likelihood
from pymc_flymc.regression.regression import Regression
from pymc_flymc.settings import check, is_number

#: The result of a PyTensor graph, by a name short enough for signatures.
Graph = TensorVariable
Graphs = Sequence[Graph]


@dataclass(frozen=True)
class Problem(Regression):
    """A regression on many rows, with an anchor: what a bound is prepared for.

    Attributes
    ----------
    name, design, y, likelihood
        As in `Regression`.
    anchor : Anchor
        Anchor of all likelihoods of the model.
    own : AnchorPart
        Its part for the coefficients of this likelihood.
    """

    anchor: Anchor
    own: AnchorPart

    @classmethod
    def of(cls, regressions: Sequence[Regression], anchor: Anchor) -> list[Problem]:
        """Combine the regressions of a model with an anchor."""
        return [
            cls(each.name, each.design, each.y, each.likelihood, anchor, own)
            for each, own in zip(regressions, anchor.parts, strict=True)
        ]


@dataclass(frozen=True)
class Preparation:
    """Results of a bound's pass over the data.

    Attributes
    ----------
    statistics : ndarray, float64
        Sufficient statistics of the collapsed bound, packed into one vector.
    constants : ndarray, shape (N, R), float64
        All that the gap of each row depends on beside its predictor.
    bright : ndarray, shape (N,), float32
        Probability that each row is bright, expected over the Laplace approximation.
    """

    statistics: np.ndarray
    constants: np.ndarray
    bright: np.ndarray


class Bound(Protocol):
    """A lower bound B_n <= L_n on the likelihood of each row whose product over rows collapses."""

    name: str
    #: Numbers that the bounds of all rows have in common at given parameters.
    n_shared: int
    #: Whether it is for joint moves of parameters and brightness: an `ExpansionBound` whose rates
    #: have the layout of `Taylor`.
    joint: bool

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether this is a bound on the likelihood."""

    def n_constants(self, likelihood: Likelihood) -> int:
        """Columns of the table of constants."""

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants.

        Parameters
        ----------
        problem : Problem
        log_factor : NativeFunction
            Compiled log factor of a bright row, from the bound's own graphs.
        """

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Return the expected number of bright rows over the Laplace approximation.

        It is estimated from every stride-th row. Steps choose the bound for which it is least.
        """

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graphs of sum_n log B_n at coefficients w, and of what the rows share there, shape (S,).

        For an `ExpansionBound` the first is sum_n log E_n.

        Both take time independent of N. `statistics` may be longer than the packed vector.
        """

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of log L_n - log B_n >= 0 for rows with constants (n, R), element by element.

        Each of the arguments of the likelihood has the shape (n,).
        """


class ExpansionBound(Bound, Protocol):
    """A bound B_n = E_n exp(-o_n): an expansion E_n of the likelihood, less a rate o_n.

    `collapsed` returns sum_n log E_n. The rates are sums of what the rows share, times constants of
    the row, in the places that `kernels.layout` says: kernels add them up over the dark rows. A row
    may be kept bright: its rate is infinite, B_n = 0, and L_n / E_n its factor in the density.
    """

    #: Says that the bound is of this kind.
    is_expansion: bool

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

    def expected_rows(self, problem: Problem, stride: int, above: float = 0.0) -> float:
        """As for `Bound`, but only of rows whose probability of being bright exceeds `above`."""

    def remainder(self, likelihood: Likelihood, arguments: Graphs, constants: Graph) -> Graph:
        """Graph of log L_n - log E_n, of either sign, element by element.

        Arguments are those of `gap`.
        """

    def rate(self, constants: Graph, arguments: Graphs, shared: Graphs) -> Graph:
        """Graph of o_n, at least the absolute remainder: the gap is the sum of both.

        So the gap is at most twice the rate. Brightness given theta is drawn by the rate. For rows
        that are kept bright the graph may give any finite number.
        """

    def is_kept_bright(self, constants: Graph) -> Graph:
        """Graph of whether the rate of a row is infinite, element by element."""


def is_expansion(bound: Bound) -> TypeGuard[ExpansionBound]:
    """Return whether a bound is an expansion less a rate."""
    return getattr(bound, "is_expansion", False)


def n_sums_of(bound: Bound) -> int:
    """Return the number of a row's sums over shared numbers, see `TaylorInParts`, or zero."""
    return getattr(bound, "n_sums", 0)


def n_common_of(bound: Bound) -> int:
    """Return how many shared numbers a row's gap depends on directly: all, or `n_common`."""
    return getattr(bound, "n_common", bound.n_shared)


def is_bound(kind: type) -> bool:
    """Return whether the objects of a class are bounds."""
    return hasattr(kind, "supports")


def check_slack(name: str, slack: float) -> float:
    """Return a bound's slack as a float.

    Raises
    ------
    ValueError
        If it is not a number, negative, or not finite.
    """
    good = is_number(slack) and 0 <= slack < np.inf
    check(good, f"{name}: slack", "a finite number >= 0", slack)
    return float(slack)
