"""Rules for columns of a linear predictor's terms: selected, concatenated, or set; see `vjp`."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import Join
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pymc_flymc.graphs.tools import index_of, numbers_of
from pymc_flymc.reading.cotangent import (
    Context,
    Cotangent,
    NotReadableError,
    Rule,
    inputs_of,
    only_rows,
    operand,
    varies,
)
from pymc_flymc.reading.nonlinear import not_linear
from pymc_flymc.reading.row_numbers import TAKES_ROWS
from pymc_flymc.reading.taken_rows import one_below_the_other, rows_of_slice

#: Why vertically concatenated rows of several terms are refused, and what to write.
_JOINS_ROWS = (
    "it joins rows of several terms",
    "observe the rows of each term as a likelihood of their own, in one model",
)
_UNKNOWN_WIDTH = "it contains {} of a term of unknown width"


def _selected(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Read columns of a matrix that holds data and variables: ``(X @ B)[:, 0]``."""
    source = inputs_of(node)[0]
    index = index_of(node, 1)
    kept = [i for i in range(source.ndim) if isinstance(index[i], slice)]
    axis = kept[ct.axis]
    shape = [1 if i == axis else n for i, n in enumerate(source.type.shape)]
    if index[axis] != slice(None):
        rows = None if context.any_rows else rows_of_slice(node, axis)
        if rows is None:
            raise NotReadableError(*TAKES_ROWS)
        return [replace(ct, var=rows)]
    if None in shape or not only_rows(ct):
        raise NotReadableError(_UNKNOWN_WIDTH.format(node.op))
    weight = pt.set_subtensor(
        pt.zeros(shape, "float64")[tuple(index)], 1.0 if ct.weight is None else ct.weight
    )
    scale = ct.scale
    if scale is not None:
        scale = scale.reshape([-1 if i == axis else 1 for i in range(source.ndim)])
    return [Cotangent(source, axis, weight, scale)]


def _joined(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Read concatenated columns, which a later sum or product contracts."""
    along, parts = node.op.axis % ct.var.ndim, inputs_of(node)
    lengths = [v.type.shape[along] for v in parts]
    if along == ct.axis:
        n_rows = sum(n or 0 for n in lengths)
        rows = None if context.any_rows else one_below_the_other(node, np.arange(n_rows))
        if rows is None:
            raise NotReadableError(*_JOINS_ROWS)
        return [replace(ct, var=pt.moveaxis(rows, 0, along))]
    if None in lengths:
        raise NotReadableError("it joins terms of unknown width")
    found = []
    for part, stop in zip(parts, np.cumsum(lengths), strict=True):
        cut: list[Any] = [slice(None)] * ct.var.ndim
        cut[along] = slice(int(stop) - part.type.shape[along], int(stop))
        weight, scale = ct.weight, ct.scale
        if weight is not None and varies(weight, along):
            weight = weight[tuple(cut)]
        if scale is not None and scale.shape[along] != 1:
            scale = scale[tuple(cut)]
        found.append(Cotangent(part, ct.axis, weight, scale))
    return found


def _set(ct: Cotangent, node: Apply, context: Context) -> list[Cotangent]:
    """Read columns that are set or incremented: ``set_subtensor(zeros[:, 1:], X @ B)``."""
    base, value, *places = inputs_of(node)
    if index_of(node, 2)[ct.axis] != slice(None) or not all(map(context.is_constant, places)):
        raise not_linear(node)  # some rows are set
    if None in [n for i, n in enumerate(ct.var.type.shape) if i != ct.axis]:
        raise NotReadableError(_UNKNOWN_WIDTH.format(node.op))
    index = [numbers_of(each) for each in index_of(node, 2)]
    weight, scale = ct.weight, ct.scale
    # The columns that are set, as a separate term, with their weights.
    columns = ct.var[tuple(index)]
    axis = sum(isinstance(each, slice) for each in index[: ct.axis])
    part = Cotangent(
        columns,
        axis,
        None if weight is None else weight[_where_it_varies(index, weight.type.shape)],
        None if scale is None else scale[_where_it_varies(index, scale.shape)],
    )
    missing = columns.ndim - value.ndim
    value = value.dimshuffle(*"x" * missing, *range(value.ndim)) if missing else value
    if node.op.set_instead_of_inc:
        # Set columns hold nothing of the base.
        shape = [1 if i == ct.axis else n for i, n in enumerate(ct.var.type.shape)]
        kept = np.ones(shape)
        kept[tuple(index)] = 0.0
        weight = pt.constant(kept) if weight is None else weight * pt.constant(kept)
    return [Cotangent(base, ct.axis, weight, scale), operand(value, part)]


def _where_it_varies(index: list[Any], shape: tuple[int | None, ...]) -> tuple[Any, ...]:
    """Return an index of an array that is broadcast: it selects all of axes of length 1."""
    return tuple(
        (each if n != 1 else slice(None) if isinstance(each, slice) else 0)
        for each, n in zip(index, shape, strict=True)
    )


#: Rules by type of operation.
COLUMN_RULES: dict[type, Rule] = {Subtensor: _selected, Join: _joined, IncSubtensor: _set}
