"""Traversal of the graph of a linear predictor down to its data, by the rules of ``vjp``.

It ends at constants: these are the design, and their weights are the coefficients.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import ConstantParts, evaluate, free_inputs, known_size
from pymc_flymc.likelihoods.checks import LEAVE_OUT
from pymc_flymc.reading.cotangent import (
    Context,
    Cotangent,
    NotReadableError,
    flat,
    not_linear,
    op_type,
    rows_first,
    scaled,
    times,
    varies,
    without_axis,
)
from pymc_flymc.reading.lookups import SPARSE_RULES, SparseBlock, split_lookup
from pymc_flymc.reading.taken_rows import taken_below
from pymc_flymc.reading.vjp import RULES, VIEWS

SUPPORTED = (
    "What is read are sums of data times coefficients, which may be any functions of variables: "
    'X @ beta + b * x + a[group] + offset. "Likelihoods" (docs/likelihoods.md) has more'
)


@dataclass(frozen=True)
class Block:
    """Constant columns, (N, P), and the graph of their coefficients, (P,)."""

    array: np.ndarray
    weight: TensorVariable
    #: Blocks with equal origins have equal columns for any rows; None is unknown.
    origin: Hashable = None


class Traversal:
    """The pieces of a linear predictor `eta`, a vector or scalar from ``freeze``.

    `blocks` and `sparse` are constant and sparse columns with their coefficients, `intercepts`
    scalars that every row gets, and `offset`, (N,) or (0,), is the sum of the terms that have rows
    and depend on no variable. With `any_rows` the result must hold for other rows, too: values of
    these rows decide nothing.
    """

    def __init__(self, eta: TensorVariable, n_rows: int, name: str, any_rows: bool) -> None:
        self.n_rows = n_rows
        self.context = Context(name, ConstantParts([eta]), any_rows)
        self.blocks: list[Block] = []
        self.sparse: list[SparseBlock] = []
        self.intercepts: list[TensorVariable] = []
        self.offset = np.empty(0)
        # A list of work, not recursion: sums of a thousand columns are deep graphs.
        todo = [Cotangent(eta.dimshuffle("x") if eta.ndim == 0 else eta, 0)]
        try:
            while todo:
                todo.extend(reversed(self._visit(todo.pop())))
        except NotReadableError as error:
            lines = [f"cannot read the linear predictor of {name!r}: {error}. {LEAVE_OUT}"]
            if error.instead:
                lines.append(f"Instead: {error.instead}")
            raise UnsupportedModelError("\n".join([*lines, SUPPORTED])) from None

    def _visit(self, ct: Cotangent) -> list[Cotangent]:
        """Return the cotangents that remain to be visited after one tensor."""
        node = ct.var.owner
        if not isinstance(ct.var.type, TensorType):
            raise NotReadableError(f"it contains {ct.var.type}, which is not a dense tensor")
        if isinstance(ct.var.type, SparseTensorType):
            raise NotReadableError("it uses a sparse matrix other than by pytensor.sparse.dot")
        if not varies(ct.var, ct.axis):
            self._add_intercept(ct)
            return []
        is_constant = self.context.is_constant(ct.var)
        if is_constant and (node is None or not self._looks_through(ct, node)):
            self._add_block(ct)
            return []
        if node is None:
            return [self._looked_up(ct)]
        same = split_lookup(node)
        if same is None:
            same = taken_below(node, self.context)
        if same is not None:
            return [replace(ct, var=same)]
        if op_type(node) in SPARSE_RULES:
            block = SPARSE_RULES[op_type(node)](ct, node, self.context)
            self._check_rows(len(block.matrix))
            self.sparse.append(block)
            return []
        step = RULES.get(op_type(node))
        try:
            if step is None:
                raise not_linear(node)
            return step(ct, node, self.context)
        except NotReadableError:
            parts = ancestors([ct.var])
            has_data = any(isinstance(v, Constant) and known_size(v) >= self.n_rows for v in parts)
            if has_data or ct.var.type.shape[ct.axis] is None:
                raise
            return [self._looked_up(ct)]

    def _looked_up(self, ct: Cotangent) -> Cotangent:
        """Return a term of a value for each row, made without data, as a lookup of its values."""
        if self.context.any_rows:
            raise NotReadableError(
                f"it has {ct.var.name or ct.var.owner.op}, a value for each row, whatever the rows"
            )
        rows = np.arange(ct.var.type.shape[ct.axis])
        return replace(ct, var=ct.var[(slice(None),) * ct.axis + (rows,)])

    def _looks_through(self, ct: Cotangent, node: Apply) -> bool:
        """Return whether a step into a constant graph saves a copy of the data."""
        # Sums are evaluated, not traversed: a column that the model centres is meant to be centred.
        kind, source = op_type(node), node.inputs[0]
        if kind is ps.Cast:
            return np.can_cast(source.type.dtype, ct.var.type.dtype, "safe")
        if kind in (ps.Mul, ps.TrueDiv, ps.Neg) and "float" in ct.var.type.dtype:
            others = [v for v in node.inputs if v is not source]
            if kind is ps.Mul and not varies(source, ct.axis):
                return sum(varies(v, ct.axis) for v in node.inputs) == 1
            return not any(varies(v, ct.axis) for v in others)
        return kind in VIEWS

    def _add_intercept(self, ct: Cotangent) -> None:
        """Add a tensor that is the same for all rows."""
        value = times(ct.weight, ct.var)
        if ct.scale is None:
            self.intercepts.append(value.sum() if value.type.shape != (1,) else value[0])
            return
        columns, sizes = rows_first(ct.scale, ct.axis)
        weight = without_axis(value, ct.axis)
        if columns.shape[1] == 1:
            self._add_columns(columns, weight.sum().dimshuffle("x"))
        else:
            self._add_columns(columns, flat(weight, sizes))

    def _add_block(self, ct: Cotangent) -> None:
        """Add a constant that has rows."""
        array = evaluate(ct.var)
        self._check_rows(array.shape[ct.axis])
        array = scaled(np.multiply, ct.scale, array, self.context)
        columns, sizes = rows_first(array, ct.axis)
        weight = ct.weight
        if weight is None:
            weight = pt.constant(np.ones((1,) * ct.var.ndim))
        plain = ct.scale is None and isinstance(ct.var, Constant)
        origin = (ct.var, ct.axis) if plain else None
        self._add_columns(columns, flat(without_axis(weight, ct.axis), sizes), origin)

    def _check_rows(self, n_rows: int) -> None:
        if n_rows != self.n_rows:
            raise ValueError(
                f"the linear predictor of {self.context.name!r} has {n_rows} rows, but "
                f"{self.n_rows} values are observed"
            )

    def _add_columns(
        self, columns: np.ndarray, weight: TensorVariable, origin: Hashable = None
    ) -> None:
        """Add ``columns @ weight`` to the blocks, or to the offset if it is a number per row."""
        if columns.dtype.kind not in "fiub":
            raise NotReadableError(f"its data are of dtype {columns.dtype}, not real numbers")
        if free_inputs([weight]):
            self.blocks.append(Block(columns, weight, origin))
            return
        numbers = np.asarray(evaluate(weight), dtype=np.float64)
        if not numbers.all():  # columns of no weight may hold infinities
            columns, numbers = columns[:, numbers != 0.0], numbers[numbers != 0.0]
        term = columns @ numbers
        self.offset = self.offset + term if self.offset.size else term
