"""Parts of a log density that are compared, as read and as the model has them, on some rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.raise_op import CheckAndRaise
from pytensor.sparse import as_sparse_variable
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.agreement.rounding import RoundedFunction, Values, rounded_function
from pymc_flymc.graphs.tools import copy_graphs, fold_constants, free_inputs
from pymc_flymc.likelihoods.likelihood import Likelihood, outcome
from pymc_flymc.reading.flat import DensityGraph, Layout
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.regression import Regression

EPSILON = float(np.finfo(np.float64).eps)
#: Coefficients of a likelihood at some points; None where they are not known.
Coefficients = list[np.ndarray | None]


def of_reading(
    graph: DensityGraph, flat: Sequence[tuple[np.ndarray, np.ndarray]], seed: int = 0
) -> tuple[np.ndarray, list[Coefficients]]:
    """Return the density without rows at flat points, shape (T, 1), and all coefficients."""
    function = rounded_function([graph.theta, graph.others], [graph.prior, *graph.coefficients])
    found = [function(*each, seed=seed) for each in flat]
    rest = [np.nan if each is None else float(each[0]) for each in found]
    ws = [
        [None if each is None else each[1 + i] for each in found] for i in range(len(graph.sizes))
    ]
    return np.array(rest)[:, None], ws


def function_of(likelihood: Likelihood) -> RoundedFunction:
    """Return the log-likelihoods of rows as a function of their arguments and observed values."""
    n_arguments = likelihood.n_predictors + len(likelihood.nuisances)
    arguments = [pt.dvector(f"argument_{i}") for i in range(n_arguments)]
    columns = [pt.dvector(name) for name in ("y", *likelihood.row_data)]
    log_l = likelihood.log_likelihood(arguments, outcome(likelihood, columns))
    return rounded_function([*arguments, *columns], [log_l])


def of_regression(
    likelihood: Likelihood, design: Design, y: np.ndarray, coefficients: Coefficients, seed: int = 0
) -> np.ndarray:
    """Return the log-likelihoods of a regression's rows at some coefficients, shape (T, n)."""
    function, rng = function_of(likelihood), np.random.default_rng(seed)
    observed = np.atleast_2d(y.T).astype(np.float64)
    out = np.full((len(coefficients), len(y)), np.nan)
    for t, w in enumerate(coefficients):
        if w is None:
            continue
        eta, sizes = (each[:, 0].T for each in design.predictors(w[None]))
        if seed:  # terms of a predictor may cancel
            eta = eta + EPSILON * sizes * rng.uniform(-1.0, 1.0, eta.shape)
        nuisances = np.repeat(w[len(w) - design.n_nuisances :, None], len(y), axis=1)
        found = function(*eta, *nuisances, *observed, seed=seed)
        out[t] = np.nan if found is None else found[0]
    return out


#: A point of a model: values of its value variables, by name.
Point = Mapping[str, np.ndarray]
FunctionOfPoints = tuple[list[Variable], RoundedFunction]


class RowsOfGraph:
    """Rows of a graph from `freeze`, along its first axis, without the checks of parameters.

    Arrays of data that have as many rows are cut down to the ones chosen. That is a guess: a graph
    may count its rows, or put them in another order. Where `whole` is true all rows are evaluated.
    """

    def __init__(self, graph: TensorVariable, rows: np.ndarray) -> None:
        self.graph, self.rows = graph, rows

    def __call__(self, points: Sequence[Point], seed: int = 0, whole: bool = False) -> np.ndarray:
        """Return values of the rows at points, shape (T, m, ...); NaN where there are none."""
        shape = len(points), len(self.rows), *self.graph.type.shape[1:]
        if not whole and self._few is not None:
            found = evaluate(self._few, points, seed)
            if found.shape[1:2] in ((1,), shape[1:2]) and not np.isnan(found).all():
                return np.broadcast_to(found, shape)
        found = evaluate(self._all, points, seed, self.rows)
        return np.broadcast_to(found.reshape(found.shape + (1,) * (len(shape) - found.ndim)), shape)

    @cached_property
    def _all(self) -> FunctionOfPoints:
        return function_of_points(copy_graphs([self.graph], _without_checks)[0])

    @cached_property
    def _few(self) -> FunctionOfPoints | None:
        n, m = self.graph.type.shape[0], len(self.rows)
        if n is None or n <= m:
            return None
        # Rows may fit no longer, as where some lie below others.
        with suppress(Exception):
            graph = copy_graphs([fold_constants(self.graph)], self._again, self._leaf)[0]
            if graph.type.shape[0] in (1, None, m):
                return function_of_points(graph)
        return None

    def _leaf(self, v: Any) -> Any:
        if getattr(v.type, "shape", ())[:1] != (self.graph.type.shape[0],):
            return v
        if not isinstance(v, Constant):
            return v[self.rows]
        if isinstance(v.type, SparseTensorType):
            return as_sparse_variable(v.data.tocsr()[self.rows].asformat(v.type.format))
        data = v.data[self.rows]
        if v.type.dtype[:3] == "int" and np.array_equal(v.data, np.arange(len(v.data))):
            data = np.arange(len(data), dtype=data.dtype)  # in an index: one for each row
        return TensorConstant(TensorType(data.dtype, data.shape), data)

    def _again(self, node: Apply, inputs: Sequence[Any]) -> Sequence[Any] | None:
        n, m = self.graph.type.shape[0], len(self.rows)
        shape: Any = getattr(node.outputs[0].type, "shape", ())
        if isinstance(node.op, Alloc | Reshape | SpecifyShape) and shape[:1] == (n,):
            source, shape = inputs[0], (m, *shape[1:])
            if isinstance(node.op, Alloc):
                return [pt.alloc(source, m, *inputs[2:])]
            if isinstance(node.op, Reshape):
                return [source.reshape(shape)]
            # Of a variable whose type leaves its length open.
            return [source[self.rows] if source.owner is None else source]
        return _without_checks(node, inputs)


def _without_checks(node: Apply, inputs: Sequence[Any]) -> Sequence[Any] | None:
    return [inputs[0]] if isinstance(node.op, CheckAndRaise) else None


def function_of_points(graph: TensorVariable) -> FunctionOfPoints:
    """Return a graph as a function of points, with its inputs."""
    inputs = free_inputs([graph])
    return inputs, RoundedFunction(inputs, [graph])


def evaluate(
    function: FunctionOfPoints,
    points: Sequence[Point],
    seed: int = 0,
    rows: np.ndarray | slice = slice(None),
) -> np.ndarray:
    """Return the values of a function at points, or some rows; NaN where there is no density."""
    inputs, of_arrays = function
    values = []
    for point in points:
        found = of_arrays(*(point[str(v.name)] for v in inputs), seed=seed)
        value = np.array(np.nan) if found is None else found[0]
        values.append(value[rows] if np.shape(value)[:1] not in ((), (1,)) else value)
    return np.stack(np.broadcast_arrays(*values)).astype(np.float64)


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
#: Log-likelihood of a row below which a guard may keep its probability off 0: guards are closer
#: than 1e-15, whose logarithm is -34.5, and densities have factors of a size of one.
AT_GUARD = -30.0


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
    #: Whether the model keeps the variable's probabilities off 0 and 1.
    is_guarded: bool = False

    def evaluate(self, points: Points, draws: int, whole: bool = False) -> tuple[Values, Values]:
        """Evaluate both sides; the model's graph of these rows alone, or the whole one."""
        own = Values.of(lambda seed: self._own(points, seed, whole), draws)
        expected = Values.of(lambda seed: self._of_logp(points.named, seed, whole), draws)
        cut = CUT * any(map(_was_cut, graph_inputs([self.logp])))
        with np.errstate(invalid="ignore"):
            errors = expected.errors + cut * (1.0 + np.abs(expected.values))
            if self.is_guarded:  # `check_guards` finds out whether such rows matter
                at_guard = (own.values < expected.values) & (expected.values < AT_GUARD)
                errors = np.where(at_guard, np.inf, errors)
        return own, Values(expected.values, errors)

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
    places: Any = (slice(None), at, *others)
    return lambda *which: of_rows(*which)[places]


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
