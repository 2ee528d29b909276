"""Walk the graph of a linear predictor down to its data, by the steps of ``operations``.

The walk ends at constants: these are the design, and their weights are the coefficients.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as ps
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs
from pymc_flymc.likelihoods.refusals import LEAVE_OUT
from pymc_flymc.reading.items import (
    Item,
    NotReadableError,
    as_columns,
    carries,
    flat,
    kind_of,
    times,
    without_axis,
)
from pymc_flymc.reading.lookups import SPARSE_STEPS, SparseBlock, split_lookup
from pymc_flymc.reading.operations import STEPS, VIEWS

SUPPORTED = (
    "Supported are sums and differences of: constant matrices times coefficients (X @ beta), "
    "constant columns times scalars (x * beta), (X * beta).sum(axis=1), lookups by a constant "
    "index (a[group], b[group] * x), products with constant sparse matrices, scalar intercepts "
    "and constant offsets, with any graph of the model's variables as coefficients."
)


@dataclass(frozen=True)
class Block:
    """Constant columns, shape (N, P), and the graph of their coefficients, shape (P,).

    Of equal origins, where they are known, columns are equal whatever the rows.
    """

    array: np.ndarray
    weight: TensorVariable
    origin: Hashable = None


class Walk:
    """The pieces of a linear predictor.

    Parameters
    ----------
    eta : TensorVariable
        Vector or scalar, a graph from ``freeze``.
    n_rows : int
        Number of rows, N.
    name : str
        Name of the observed variable, for messages.
    any_rows : bool
        Read what holds for other rows, too: nothing is decided by the values of these.

    Attributes
    ----------
    blocks : list of Block
        Constant columns with their coefficients.
    sparse : list of SparseBlock
        Sparse columns with their coefficients.
    intercepts : list of TensorVariable
        Scalars that every row gets.
    offset : ndarray of shape (N,) or (0,)
        Sum of the terms that have rows and depend on no variable.
    n_rows : int
        Number of rows, N.

    Raises
    ------
    UnsupportedModelError
        If the graph is not linear, or holds an operation that is not known.
    ValueError
        If the data have another number of rows.
    """

    def __init__(self, eta: TensorVariable, n_rows: int, name: str, any_rows: bool = False) -> None:
        self.n_rows = n_rows
        self.any_rows = any_rows
        self.blocks: list[Block] = []
        self.sparse: list[SparseBlock] = []
        self.intercepts: list[TensorVariable] = []
        self.offset = np.empty(0)
        self._name = name
        self._fixed: dict[Variable, bool] = {}
        for node in toposort([eta]):
            answer = bool(node.inputs) and all([self(v) for v in node.inputs])
            self._fixed.update(dict.fromkeys(node.outputs, answer))
        # A list of work, not recursion: sums of a thousand columns are deep graphs.
        todo = [Item(eta.dimshuffle("x") if eta.ndim == 0 else eta, 0)]
        try:
            while todo:
                todo.extend(reversed(self._visit(todo.pop())))
        except NotReadableError as error:
            raise UnsupportedModelError(
                f"cannot read the linear predictor of {name!r}: {error}. {LEAVE_OUT}\n{SUPPORTED}"
            ) from None

    def __call__(self, var: Variable) -> bool:
        """Return whether a variable depends on constants only."""
        if var not in self._fixed:
            self._fixed[var] = isinstance(var, Constant) or (
                var.owner is not None and not free_inputs([var])
            )
        return self._fixed[var]

    def _visit(self, item: Item) -> list[Item]:
        """Take one tensor apart, into items that remain to be visited."""
        node = item.var.owner
        if not isinstance(item.var.type, TensorType):
            raise NotReadableError(f"it contains {item.var.type}, which is not a dense tensor")
        if isinstance(item.var.type, SparseTensorType):
            raise NotReadableError("it uses a sparse matrix other than by pytensor.sparse.dot")
        if not carries(item.var, item.axis):
            self._add_intercept(item)
            return []
        if node is None:
            if not self(item.var):
                raise NotReadableError(
                    f"its variable {item.var.name!r} has one value for each row, and Firefly "
                    "needs coefficients that are few compared with the rows"
                )
            self._add_block(item)
            return []
        if self(item.var) and not self._looks_through(item, node):
            self._add_block(item)
            return []
        split = split_lookup(node)
        if split is not None:
            return [replace(item, var=split)]
        if kind_of(node) in SPARSE_STEPS:
            block = SPARSE_STEPS[kind_of(node)](item, node, self._name, self.any_rows)
            self._check_rows(len(block.matrix))
            self.sparse.append(block)
            return []
        step = STEPS.get(kind_of(node))
        if step is None:
            raise NotReadableError(f"{node.op} of data and variables is not linear or not known")
        return step(item, node, self)

    def _looks_through(self, item: Item, node: Apply) -> bool:
        """Return whether a step into a constant graph saves a copy of the data.

        Sums are evaluated, not walked: a column that the model centres is meant to be centred.
        """
        kind, source = kind_of(node), node.inputs[0]
        if kind is ps.Cast:
            return np.can_cast(source.type.dtype, item.var.type.dtype, "safe")
        if kind in (ps.Mul, ps.TrueDiv, ps.Neg) and "float" in item.var.type.dtype:
            others = [v for v in node.inputs if v is not source]
            if kind is ps.Mul and not carries(source, item.axis):
                return sum(carries(v, item.axis) for v in node.inputs) == 1
            return not any(carries(v, item.axis) for v in others)
        return kind in VIEWS

    def _add_intercept(self, item: Item) -> None:
        """Take a tensor that is the same for all rows."""
        value = times(item.weight, item.var)
        if item.scale is None:
            self.intercepts.append(value.sum() if value.type.shape != (1,) else value[0])
            return
        columns, sizes = as_columns(item.scale, item.axis)
        weight = without_axis(value, item.axis)
        if columns.shape[1] == 1:
            self._add_columns(columns, weight.sum().dimshuffle("x"))
        else:
            self._add_columns(columns, flat(weight, sizes))

    def _add_block(self, item: Item) -> None:
        """Take a constant that has rows."""
        array = evaluate(item.var)
        self._check_rows(array.shape[item.axis])
        if item.scale is not None:
            array = array * item.scale
        columns, sizes = as_columns(array, item.axis)
        weight = item.weight
        if weight is None:
            weight = pt.constant(np.ones((1,) * item.var.ndim))
        plain = item.scale is None and isinstance(item.var, Constant)
        origin = (item.var, item.axis) if plain else None
        self._add_columns(columns, flat(without_axis(weight, item.axis), sizes), origin)

    def _check_rows(self, n_rows: int) -> None:
        if n_rows != self.n_rows:
            raise ValueError(
                f"the linear predictor of {self._name!r} has {n_rows} rows, but "
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
        term = columns @ np.asarray(evaluate(weight), dtype=np.float64)
        self.offset = self.offset + term if self.offset.size else term
