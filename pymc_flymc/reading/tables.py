"""Tables of observed values as rows: a function of one of their axes becomes a lookup.

In ``theta[:, None] - b[None, :]``, for observed values of persons (axis 0) and items (axis 1), an
effect of persons has one value for each person. As rows this is ``theta[person] - b[item]``, with
the indices of each row's person and item. Neither is written out as columns of zeros and ones.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import (
    ConstantParts,
    Shapes,
    evaluate,
    free_inputs,
    freeze,
    plain_function,
)
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.reading.cotangent import inputs_of, op_type, varies
from pymc_flymc.reading.lookups import positions_of

_THROUGH = frozenset({ViewOp, SpecifyShape, DimShuffle, Alloc, Sum, Dot})


def as_rows(
    parameters: RowParameters, shape: tuple[int, ...], shapes: Shapes, name: str
) -> RowParameters:
    """Return the parameters of a table of observed values as those of its N rows, in C order."""
    if parameters.likelihood.n_predictors > 1:
        raise several_predictors(name, len(shape))
    rows = _TableRows(shape, shapes, name)
    return replace(
        parameters,
        predictors=rows.of(parameters.predictors),
        row_data=[rows.of(graph) for graph in parameters.row_data],
        rest=None if parameters.rest is None else rows.of(parameters.rest),
        unit=None if parameters.unit is None else rows.of(parameters.unit),
    )


def several_predictors(name: str, ndim: int) -> UnsupportedModelError:
    """Return the error for a table of a family with several predictors."""
    return UnsupportedModelError(
        f"the observed variable {name!r} has {ndim} dimensions, which is supported for likelihoods "
        "with one predictor only: write it with a row for each value, as in "
        "person, item = np.indices(Y.shape).reshape(2, -1), with effects theta[person] and "
        "observed=Y.ravel()"
    )


class _TableRows:
    """Turns graphs of the shape of a table into graphs of its rows.

    `_take` does the work, from the results of operations down to their arguments. Its argument is
    the axis of the table for each axis of a tensor, or None for another axis. Its result has the
    axis of rows before the tensor's own axes, and length one along the table's axes.
    """

    def __init__(self, shape: tuple[int, ...], shapes: Shapes, name: str) -> None:
        self._shape, self._shapes, self._name = shape, shapes, name
        self._n_rows = math.prod(shape)
        index = np.int32 if max(shape) < 2**31 else np.int64
        numbers = np.meshgrid(*(np.arange(n, dtype=index) for n in shape), indexing="ij")
        self._numbers = [pt.constant(each.reshape(-1)) for each in numbers]
        #: Lengths of the axes of the constants that a tensor is computed from.
        self._lengths: dict[Variable, frozenset[int]] = {}
        self._is_constant = ConstantParts([])

    def of(self, graph: TensorVariable) -> TensorVariable:
        """Return the rows of a graph, a vector of length N or a scalar, or refuse it."""
        frozen = freeze(graph, self._shapes)
        if frozen.ndim == 0:
            return frozen
        self._is_constant = ConstantParts([frozen])
        for node in toposort([frozen]):
            lengths = frozenset[int]().union(*map(self._lengths_below, node.inputs))
            self._lengths.update(dict.fromkeys(node.outputs, lengths))
        missing = len(self._shape) - frozen.ndim
        at = tuple(range(missing, len(self._shape)))
        rows = self._take(frozen, at).dimshuffle(0)
        self._check(frozen, rows)
        return rows[0] if rows.type.broadcastable[0] and self._n_rows > 1 else rows

    def _lengths_below(self, v: Variable) -> frozenset[int]:
        if v not in self._lengths:
            shape = getattr(v.type, "shape", ()) if isinstance(v, Constant) else ()
            self._lengths[v] = frozenset(n for n in shape if n)
        return self._lengths[v]

    def _take(self, v: Any, at: Sequence[int | None]) -> Any:
        """Return the rows of a tensor, (N, ...), or (1, ...) if all are the same."""
        carried = [j for j, axis in enumerate(at) if axis is not None and varies(v, j)]
        if not carried:
            return v.dimshuffle("x", *range(v.ndim))
        if self._is_constant(v):
            return self._take_numbers(evaluate(v), carried, at)
        node = v.owner
        op = None if node is None else node.op
        # A term without data is looked up as a whole: a function of effects serves as an effect.
        has_data = any(self._shape[at[j] or 0] in self._lengths_below(v) for j in carried)
        if isinstance(op, Elemwise) and (has_data or len(carried) > 1):
            return op(*(self._take(each, at) for each in inputs_of(node)))
        if isinstance(op, AdvancedSubtensor) and not free_inputs(node.inputs[1:]):
            places = self._take_numbers(positions_of(node, self._name), carried, at)
            return inputs_of(node)[0].flatten()[places]
        if (has_data or len(carried) > 1) and _is_known(node):
            return self._through(v, node, at)
        return self._look_up(v, carried, at)

    def _through(self, v: Any, node: Apply, at: Sequence[int | None]) -> Any:
        """Follow an operation that is not elementwise."""
        op, kind, source = node.op, op_type(node), inputs_of(node)[0]
        if kind is DimShuffle:
            order = op.new_order
            back = [at[order.index(j)] if j in order else None for j in range(source.ndim)]
            return self._take(source, back).dimshuffle(
                0, *("x" if j == "x" else j + 1 for j in order)
            )
        if kind is Sum:
            gone = [axis % source.ndim for axis in op.axis]
            kept = iter(at)
            back = [None if j in gone else next(kept) for j in range(source.ndim)]
            return self._take(source, back).sum(axis=[j + 1 for j in gone])
        if kind is Dot:
            left, right = inputs_of(node)
            a, b = self._take(left, (at[0], None)), self._take(right, (None, at[1]))
            return (a.dimshuffle(0, 1, 2, "x") * b.dimshuffle(0, "x", 1, 2)).sum(axis=2)
        if kind is Alloc:
            source = source.dimshuffle(*"x" * (v.ndim - source.ndim), *range(source.ndim))
        return self._take(source, at)

    def _take_numbers(
        self, value: np.ndarray, carried: Sequence[int], at: Sequence[int | None]
    ) -> TensorVariable:
        """Return rows of constants; rows of a whole table share its memory."""
        axes = [at[j] for j in carried]
        front = np.moveaxis(value, carried, range(len(carried)))
        inner = front.shape[len(carried) :]
        if axes == [k for k, n in enumerate(self._shape) if n > 1]:
            rows = front.reshape(self._n_rows, *inner)
        else:
            rows = front[tuple(self._numbers[k or 0].data for k in axes)]
        own = [1 if j in carried else n for j, n in enumerate(value.shape)]
        return pt.constant(rows.reshape(self._n_rows, *own))

    def _look_up(self, v: Any, carried: Sequence[int], at: Sequence[int | None]) -> Any:
        """Return each row's element of a tensor that is as long as some axes of the table."""
        inner = [j for j in range(v.ndim) if j not in carried]
        axes = [at[j] or 0 for j in carried]
        front = v.dimshuffle(*carried, *inner)
        if len(axes) > 1 and any(self._shape[k] in self._lengths_below(v) for k in axes):
            raise UnsupportedModelError(
                f"cannot read the observed variable {self._name!r}, a table of shape "
                f"{self._shape}: {v.owner.op} of data and variables has a value of its own for "
                "each of its values"
            )
        is_whole = len(axes) == 1 and self._shape[axes[0]] == self._n_rows
        rows = front if is_whole else front[tuple(self._numbers[k] for k in axes)]
        place = {j: i + 1 for i, j in enumerate(inner)}
        return rows.dimshuffle(0, *(place.get(j, "x") for j in range(v.ndim)))

    def _check(self, graph: TensorVariable, rows: TensorVariable) -> None:
        """Compare both forms at random values of the variables."""
        inputs = free_inputs([graph])
        rng = np.random.default_rng(20260102)
        point = [
            rng.standard_normal(self._shapes.get(v, v.type.shape)).astype(v.type.dtype)
            for v in inputs
        ]
        with np.errstate(all="ignore"):
            table, found = plain_function(inputs, [graph, rows])(*point)
        try:
            expected = np.broadcast_to(table, self._shape).reshape(-1)
        except ValueError:
            raise UnsupportedModelError(
                f"a parameter of {self._name!r} has the shape {table.shape}, which is not that of "
                f"the observed values, {self._shape}: write it with a row for each value, and a "
                "column of outcomes as observed=y.ravel()"
            ) from None
        rtol = 1e-10 if expected.dtype == np.float64 else 1e-4
        scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        if not np.allclose(found, expected, rtol, rtol * scale, equal_nan=True):
            raise UnsupportedModelError(
                f"the table {self._name!r} was read wrongly as rows. Please report this model; "
                "writing it with a row for each value avoids the problem"
            )


def _is_known(node: Apply | None) -> bool:
    """Return whether `_TableRows` can read an operation; a product must be of two matrices."""
    if node is None or op_type(node) not in _THROUGH:
        return False
    return op_type(node) is not Dot or inputs_of(node)[0].ndim == inputs_of(node)[1].ndim == 2
