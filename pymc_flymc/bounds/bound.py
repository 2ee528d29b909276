"""The protocols of bounds, their factors of bright rows, and the rounding of gaps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any, Protocol, TypeGuard, cast

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.errors import check, is_number
from pymc_flymc.graphs.compilation import RowFactor
from pymc_flymc.kernels.factors import VIOLATED
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood, outcome
from pymc_flymc.regression.regression import Regression

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

    Raises ValueError if it is not a number, negative, or not finite.
    """
    good = is_number(slack) and 0 <= slack < np.inf
    check(good, f"{name}: slack", "a finite number >= 0", slack)
    return float(slack)


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


#: Rounding errors allowed, in machine epsilons of the terms' size.
EPSILONS = 256.0


def rounding_error(gap: TensorVariable) -> TensorVariable:
    """Return the graph of the largest rounding error that a gap may have, element by element.

    A gap is a difference of numbers that are nearly equal. Its error is in proportion to the sizes
    of its terms, which are found in the outermost sums and products of its graph. Sizes of the
    terms of a sum are added, those of factors are multiplied. All terms are computed for the gap
    anyway. Sums of inputs, which are not computed, have no error. A gap that is not a sum, but
    comes from a function that loses no digits, has its own size. One is added to all sizes.
    """
    sizes: dict[Any, Any] = {}
    computed: set[Any] = set()
    node: Any
    for node in toposort([gap]):
        is_elemwise = isinstance(node.op, Elemwise)
        if is_elemwise and not computed.isdisjoint(node.inputs):
            size = _size(node.op.scalar_op, node.inputs, sizes)
            if size is not None:
                sizes[node.outputs[0]] = size
        if is_elemwise or not computed.isdisjoint(node.inputs):
            computed.update(node.outputs)
    return EPSILONS * np.finfo(np.float64).eps * (1.0 + sizes.get(gap, abs(gap)))


def _size(op: Any, inputs: list[Any], sizes: dict[Any, Any]) -> Any:
    """Return the size of a sum, or of an operation on one; None for anything else."""
    own = [sizes.get(v, abs(v)) for v in inputs]
    if isinstance(op, ps.Add | ps.Sub):
        return reduce(add, own)
    if not any(v in sizes for v in inputs):
        return None
    if isinstance(op, ps.Mul):
        return reduce(mul, own)
    if isinstance(op, ps.Neg | ps.Cast):
        return own[0]
    if isinstance(op, ps.TrueDiv):
        return own[0] / abs(inputs[1])
    if isinstance(op, ps.Sqr):
        return own[0] * own[0]
    if isinstance(op, ps.Switch):
        return pt.switch(inputs[0], own[1], own[2])
    return own[1] if isinstance(op, ps.Second) else None


def log_odds(gap: TensorVariable) -> TensorVariable:
    """Log odds of being bright, log(L_n/B_n - 1), from the gap log L_n - log B_n.

    Written so that neither a tiny nor a huge gap loses digits or overflows. Rounding may put a gap
    that vanishes at the anchor slightly below zero: there the row cannot be bright, log odds -inf.
    """

    def pullback(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        # The chain rule would give 1 + exp(-gap) / (1 - exp(-gap)), with more exponentials.
        return [-gradients[0] / pt.expm1(-inputs[0])]

    return _of_gap(gap, lambda g: g + pt.log(-pt.expm1(-g)), pullback)


def log_brightness(gap: TensorVariable) -> TensorVariable:
    """Log probability of being bright, log(1 - B_n/L_n), as `log_odds`."""

    def pullback(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        return [gradients[0] / pt.expm1(inputs[0])]

    return _of_gap(gap, lambda g: pt.log(-pt.expm1(-g)), pullback)


def _of_gap(gap: Any, function: Callable[[Any], Any], pullback: Callable[..., Any]) -> Any:
    gap = pt.maximum(gap, 0.0)
    g = gap.type()
    return OpFromGraph([g], [function(g)], pullback=pullback, inline=True)(gap)


def row_factor(likelihood: Likelihood, bound: Bound) -> RowFactor:
    """Log factor of a bright row: log(L/B - 1), or log L where there is no bound.

    For an expansion E less a rate it is log(L - B) - log E, so that a huge rate does not cost
    digits of the other terms. The log odds are this plus the rate. For a row that is kept bright it
    is log L - log E. Where a gap is negative beyond rounding, the bound is violated, and the factor
    is `VIOLATED`.
    """

    def log_factor(arguments: list[Any], constants: Any, shared: Any) -> Any:
        if isinstance(bound, ExpansionBound):
            remainder = bound.remainder(likelihood, arguments, constants)
            gap: Any = remainder + bound.rate(constants, arguments, shared)
            # The gap of rows that are kept bright is infinite: their bound is zero, never dark.
            gap = pt.switch(bound.is_kept_bright(constants), np.inf, gap)
            factor = remainder + log_brightness(gap)
        else:
            gap = bound.gap(likelihood, arguments, constants, shared)
            factor = log_odds(gap)
        violated = pt.lt(gap, -rounding_error(gap))
        return pt.switch(violated, pt.constant(VIOLATED, dtype="float64"), factor)

    if isinstance(bound, AllRows):
        return exact_factor(likelihood, bound)
    return _factor(likelihood, bound, log_factor)


def exact_factor(likelihood: Likelihood, bound: Bound) -> RowFactor:
    """Log factor of a row that is treated exactly, whatever its brightness: log(L/B).

    It is log L where there is no bound, and the remainder of the expansion for rows whose rates are
    zero, see `treat_exactly`.
    """

    def log_factor(arguments: list[Any], constants: Any, shared: Any) -> Any:
        if isinstance(bound, ExpansionBound):
            # Not the gap less the rate: far out powers are infinite, and zero times that is NaN.
            return bound.remainder(likelihood, arguments, constants)
        return bound.gap(likelihood, arguments, constants, shared)

    return _factor(likelihood, bound, log_factor)


def _factor(likelihood: Likelihood, bound: Bound, log_factor: Callable[..., Any]) -> RowFactor:
    n_arguments, n_common = likelihood.n_predictors, bound.n_shared
    if isinstance(bound, ExpansionBound):  # a row's sums are passed as further predictors
        n_arguments, n_common = n_arguments + bound.n_sums, bound.n_common
    sizes = len(likelihood.nuisances), bound.n_constants(likelihood), n_common
    return RowFactor(log_factor, n_arguments, *sizes)
