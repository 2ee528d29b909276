"""The protocols of bounds, and the problem that a bound is prepared for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood
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
