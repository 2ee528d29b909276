"""Terms of a linear predictor: columns of data, and graphs of their coefficients.

One row of the predictor is linear in each of its inputs. The derivative by an input is the graph of
its coefficient, unless other inputs are left in it: these are factors of the input's columns.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.tools import (
    copy_graphs,
    evaluate,
    fold_constants,
    free_inputs,
    known_size,
    plain_function,
    rewritten,
)
from pymc_flymc.likelihoods.checks import LEAVE_OUT
from pymc_flymc.reading.one_row import OneRow, RowInput
from pymc_flymc.reading.unreadable import NotReadableError, op_type
from pymc_flymc.regression.design import SparseColumns

SUPPORTED = (
    "What is read are sums of data times coefficients, which may be any functions of variables: "
    'X @ beta + b * x + a[group] + offset. "Likelihoods" (docs/likelihoods.md) has more'
)
_TWO_MATRICES = "it multiplies term by term by a matrix of the data's size"
_CANONICAL = rewrites("canonicalize")


@dataclass(frozen=True)
class Columns:
    """Columns of numbers, (N, P), dense or sparse, and the graph of their coefficients, (P,)."""

    matrix: Any
    weight: TensorVariable
    #: Columns with equal origins are equal for any rows; None is unknown.
    origin: Hashable = None

    @property
    def width(self) -> int:
        """Return the number of columns."""
        is_dense = isinstance(self.matrix, np.ndarray)
        return int(self.matrix.shape[1] if is_dense else self.matrix.n_columns)

    def positive(self) -> "Columns":
        """Return sparse columns such that their first number is positive."""
        if isinstance(self.matrix, np.ndarray):
            return self
        matrix, sign = self.matrix.positive()
        return self if sign > 0.0 else Columns(matrix, -self.weight)

    def same_as(self, other: "Columns", any_rows: bool) -> bool:
        """Return whether others hold the same numbers: arrays share their memory."""
        if any_rows:
            return self.origin is not None and self.origin == other.origin
        if not isinstance(self.matrix, np.ndarray):
            return bool(self.matrix.same_as(other.matrix))
        return bool(self.matrix.__array_interface__ == other.matrix.__array_interface__)


def add_up(a: Any, b: Any) -> Any:
    """Return a sum, as numbers: that of truth values is one, and that of bytes may overflow."""
    return np.add(a, b, dtype=np.float64) if isinstance(a, np.ndarray) else a + b


class Terms:
    """The terms of a linear predictor `eta`, a vector or scalar from ``freeze``.

    `dense` and `sparse` are columns with their coefficients, `intercepts`
    scalars that every row gets, and `offset`, (N,) or (0,), is the sum of the terms that have rows
    and depend on no variable. With `any_rows` the result must hold for other rows, too: values of
    these rows decide nothing.
    """

    def __init__(self, eta: TensorVariable, n_rows: int, name: str, any_rows: bool) -> None:
        self.n_rows, self.any_rows = n_rows, any_rows
        self.dense: list[Columns] = []
        self.sparse: list[Columns] = []
        self.intercepts: list[TensorVariable] = []
        self.offset = np.empty(0)
        try:
            self._row = OneRow(eta, n_rows, name, any_rows)
            self._add_terms()
        except NotReadableError as error:
            lines = [f"cannot read the linear predictor of {name!r}: {error}. {LEAVE_OUT}"]
            if error.instead:
                lines.append(f"Instead: {error.instead}")
            raise UnsupportedModelError("\n".join([*lines, SUPPORTED])) from None

    def _add_terms(self) -> None:
        """Split the row into terms; those that are no input times a number are differentiated."""
        row, inputs = self._row.graph, self._row.inputs
        with_inputs: set[Variable] = set(inputs)
        for node in toposort([row]):
            if not with_inputs.isdisjoint(node.inputs):
                with_inputs.update(node.outputs)
        todo: list[tuple[Any, Any]] = [(row, None)]
        while todo:
            v, weight = todo.pop()
            kind = None if v.owner is None else op_type(v.owner)
            below = [] if v.owner is None else [u for u in v.owner.inputs if u in with_inputs]
            if v in inputs:
                self._add(inputs[v], weight, None)
            elif not below:
                self.intercepts.append(_times(weight, pt.squeeze(self._in_variables(v))))
            elif kind in (ps.Add, DimShuffle):
                todo += [(u, weight) for u in reversed(v.owner.inputs)]
            elif kind in (ps.Sub, ps.Neg):
                todo.append((v.owner.inputs[-1], _times(weight, pt.constant(-1.0))))
                todo += [(u, weight) for u in v.owner.inputs[:-1]]
            elif kind is ps.Mul and len(below) == 1:
                for u in v.owner.inputs:
                    weight = (
                        weight
                        if u is below[0]
                        else _times(weight, pt.squeeze(self._in_variables(u)))
                    )
                todo.append((below[0], weight))
            else:
                self._differentiate(v, weight)

    def _in_variables(self, v: Any, of: Mapping[Any, Any] | None = None) -> Any:
        """Return a graph without inputs of rows in terms of variables."""
        now, shared = of or {}, self._row.shared
        return copy_graphs([v], lambda *_: None, lambda u: shared.get(now.get(u, u), u))[0]

    def _differentiate(self, term: Any, weight: Any) -> None:
        """Add a term that is linear in each of its inputs."""
        # Rows out of core are read again and again: of equal terms derivatives are taken once.
        own = [self._row.inputs[v] for v in ancestors([term]) if v in self._row.inputs]
        own.sort(key=lambda each: (each.source is None, -each.size))
        rows = [each.variable for each in own]
        variables = [*rows, *(v for v in free_inputs([term]) if v not in rows)]
        known, products = memoised(
            _products, term, variables, len(rows), inputs=variables, outputs=[term], also=len(rows)
        )
        of = dict(zip(known, variables, strict=True))
        for main, factors, slope in products:
            scale = None
            for factor, contraction in factors:
                numbers = self._row.inputs[of[factor]].rows.reshape(self.n_rows, -1)
                scale = self._scaled(
                    scale, numbers if contraction is None else numbers @ contraction
                )
            coefficients = _times(weight, self._in_variables(slope, of))
            if main is None:
                self.intercepts.append(pt.squeeze(coefficients))
            else:
                self._add(self._row.inputs[of[main]], coefficients, scale)

    def _scaled(self, scale: np.ndarray | None, numbers: np.ndarray) -> np.ndarray:
        """Return a product of numbers of rows: zero stays zero."""
        # A scale is zero where `switch` takes the other branch, and there the numbers of this one
        # may be infinite, as in switch(x > 0, b * log(x), 0). Only for the rows at hand is the
        # model's own predictor checked to be finite there: with any_rows all results are kept.
        if scale is None:
            return numbers
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.multiply(scale, numbers, dtype=np.float64)
            if self.any_rows or np.isfinite(found).all():
                return found
            return np.where((scale == 0.0) | (numbers == 0.0), 0.0, found)

    def _add(self, main: RowInput, weight: Any, scale: np.ndarray | None) -> None:
        """Add columns of an input; `weight` has its shape, or is a scalar."""
        size = main.size
        weight = pt.ones(1) if weight is None else weight.flatten()
        if main.source is None:
            array = self._scaled(scale, main.rows.reshape(self.n_rows, -1))
            self._add_columns(array, weight, main.origin if scale is None else None)
            return
        if size > 1 and weight.type.shape == (1,):
            weight = pt.broadcast_to(weight, (size,))
        is_one = not free_inputs([weight]) and bool(np.all(evaluate(weight) == 1.0))
        origin = main.origin if is_one and scale is None else None
        if isinstance(main.rows, np.ndarray):
            found = self._lookup(main, weight, scale)
            self.sparse.append(Columns(*found, origin))
            return
        rows, other = main.rows, main.source
        if scale is not None:
            if scale.shape[1] > 1:
                raise NotReadableError(
                    "it multiplies SparseDot term by term by a matrix of the data's size"
                )
            rows = rows.copy()
            rows.data *= np.repeat(scale.ravel(), np.diff(rows.indptr))
        coefficients = other.astype("float64")
        if coefficients.ndim > 1:
            coefficients = (coefficients * weight).sum(axis=1)
        else:
            coefficients = coefficients * weight
        columns = SparseColumns.of_matrix(rows)
        shape = (columns.n_columns,)
        self.sparse.append(Columns(columns, pt.specify_shape(coefficients, shape)))

    def _lookup(
        self, main: RowInput, weight: Any, scale: np.ndarray | None
    ) -> tuple[SparseColumns, TensorVariable]:
        """Return the columns of a lookup, in which each row has J elements of a source."""
        # Elements that no row looks up are left out, unless the result must hold for other rows.
        columns = main.rows.reshape(self.n_rows, -1)
        values = None if scale is None else np.broadcast_to(scale, columns.shape)
        coefficients: Any = main.source.flatten()  # type: ignore[union-attr]
        if free_inputs([weight]):
            columns, coefficients = _weighted(columns, coefficients, weight, self.any_rows)
        elif not np.all((numbers := np.broadcast_to(evaluate(weight), columns.shape[1:])) == 1.0):
            kept = numbers != 0.0
            columns = columns[:, kept]
            values = (1.0 if values is None else values[:, kept]) * numbers[kept]
            values = np.broadcast_to(values, columns.shape)
        used = np.full(int(np.prod(coefficients.type.shape)), self.any_rows)
        used[columns] = True
        if not used.all():
            coefficients = coefficients[np.flatnonzero(used)]
            columns = (np.cumsum(used, dtype=np.int32) - np.int32(1))[columns]
        return SparseColumns.of_codes(columns, values, int(used.sum())), coefficients

    def _add_columns(self, columns: np.ndarray, weight: Any, origin: Hashable) -> None:
        """Add ``columns @ weight`` to dense ones, or to the offset if it is a number per row."""
        if free_inputs([weight]):
            if weight.type.shape[0] == 1 != columns.shape[1]:
                weight = pt.broadcast_to(weight, (columns.shape[1],))
            self.dense.append(Columns(columns, weight, origin))
            return
        numbers = np.broadcast_to(evaluate(weight).astype(np.float64), columns.shape[1:])
        if not numbers.all():  # columns of no weight may hold infinities
            columns, numbers = columns[:, numbers != 0.0], numbers[numbers != 0.0]
        term = columns @ numbers
        self.offset = self.offset + term if self.offset.size else term


#: An input of a row, if any; others, of which elements are multiplied, or sums of them with known
#: numbers; and the graph of the coefficients of these products.
Product = tuple[Any, tuple[tuple[Any, np.ndarray | None], ...], Any]


def _products(
    term: Any, variables: Sequence[Any], n_inputs: int
) -> tuple[Sequence[Any], list[Product]]:
    """Return products of the first variables, inputs of a row, whose sum a term is."""
    inputs, found = variables[:n_inputs], []

    def used(graph: Any) -> list[Any]:
        above = set(ancestors([graph]))
        return [v for v in inputs if v in above]

    def add(main: Any, factors: tuple[Any, ...], slope: Any) -> None:
        """Add products of an input, whose coefficients are the derivative by it."""
        others = used(slope)
        if not others:
            found.append((main, factors, slope))
            return
        factor, contraction = others[0], None
        without, of_ones = _simplified(
            [_with(slope, factor, 0.0), _with(slope, factor, 1.0)], inputs
        )
        if not _is_zero(without):
            add(main, factors, without)
            slope, of_ones = slope - without, of_ones - without
        if known_size(factor) != 1 and not _is_product(slope, of_ones, factor):
            if len(others) > 1 or free_inputs([slope]) != [factor]:
                raise NotReadableError(_TWO_MATRICES)
            units = np.eye(known_size(factor)).reshape(-1, *factor.type.shape)
            contraction = np.stack([plain_function([factor], slope.flatten())(u) for u in units])
            of_ones = pt.ones(main.type.shape)
        add(main, (*factors, (factor, contraction)), of_ones)

    (term,) = _simplified([term.sum()], inputs)
    while of_term := used(term):
        main = of_term[0]
        slope, term = _simplified([pytensor.grad(term, main), _with(term, main, 0.0)], inputs)
        if not _is_zero(slope):
            add(main, (), slope)
    if not _is_zero(term):
        found.append((None, (), term))
    return variables, found


def _simplified(graphs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return graphs in which what is zero is a constant, and inputs lend no shape."""
    zeros: list[Any] = [(v, pt.zeros(v.type.shape)) for v in inputs]

    def filled(node: Apply, inputs: Sequence[Any]) -> list[Any] | None:
        if op_type(node) is not ps.Second:
            return None
        (like, value), shape = inputs, node.outputs[0].type.shape
        if None in shape:
            return [pt.second(clone_replace([like], zeros)[0], value)]
        if isinstance(value, Constant):
            return [pt.constant(np.broadcast_to(value.data, shape))]
        return [pt.broadcast_to(value, shape) if value.type.shape != shape else value]

    for _ in range(2):  # rewrites write such fills, too
        graphs = rewritten(copy_graphs(graphs, filled), _CANONICAL)
        graphs = [fold_constants(graph) for graph in graphs]
        if not any(op_type(node) is ps.Second for node in toposort(graphs)):
            break
    return list(graphs)


def _is_product(slope: Any, of_ones: Any, factor: Any) -> bool:
    """Return whether a derivative is a product with another input, element by element."""
    inputs = free_inputs([slope, of_ones])
    if factor.type.shape != slope.type.shape or any(None in v.type.shape for v in inputs):
        return False
    rng = np.random.default_rng(0)
    both = plain_function(inputs, [slope, of_ones * factor])
    found, expected = both(*(rng.uniform(1.0, 2.0, v.type.shape) for v in inputs))
    return np.allclose(found, expected, rtol=1e-10)


def _with(graph: Any, variable: Any, number: float) -> Any:
    """Return a graph with a number in place of an input."""
    return clone_replace([graph], [(variable, pt.constant(np.full(variable.type.shape, number)))])[
        0
    ]


def _times(weight: Any, factor: Any) -> Any:
    """Return a product; None stands for one."""
    return factor if weight is None else weight * factor


def _is_zero(graph: Any) -> bool:
    return isinstance(graph, TensorConstant) and not np.any(graph.data)


def _weighted(
    columns: np.ndarray, coefficients: Any, weight: TensorVariable, any_rows: bool
) -> tuple[np.ndarray, Any]:
    """Return columns and coefficients after multiplication by the weights of a row's J elements."""
    # If no element has several weights, it keeps one coefficient. Otherwise each pair of an element
    # and a weight has one, as it always has if the result must hold for other rows, too.
    each = np.arange(columns.shape[1], dtype=np.int32)
    if weight.type.shape == (1,) or columns.shape[1] == 1:
        return columns, coefficients * weight
    (size,) = coefficients.type.shape
    place = np.zeros(size, np.int32)
    place[columns] = each
    if not any_rows and np.array_equal(place[columns], np.broadcast_to(each, columns.shape)):
        return columns, coefficients * weight[place]
    # The same element occurs with different weights.
    pairs = coefficients[:, None] * weight[None, :]
    return columns * np.int32(len(each)) + each, pt.specify_shape(
        pairs.flatten(), (size * len(each),)
    )
