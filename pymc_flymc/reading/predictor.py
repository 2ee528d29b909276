"""Reading of a linear predictor: its PyTensor graph is split into a design and coefficients.

The graph is traversed from the predictor down (``traversal``). This module assembles the pieces and
checks the result by evaluating both forms.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.integers import check_integers
from pymc_flymc.graphs.tools import Shapes, first_equals, fold_constants, free_inputs, freeze
from pymc_flymc.likelihoods.refusals import ALTERNATIVES
from pymc_flymc.reading.lookups import SparseBlock
from pymc_flymc.reading.predictor_checks import (
    check_coefficients,
    check_finite,
    check_predictor,
    rows_with_a_mean,
)
from pymc_flymc.reading.traversal import Block, Traversal
from pymc_flymc.regression.design import Design, gather
from pymc_flymc.regression.matrices import LARGEST_DENSE
from pymc_flymc.regression.sparse_columns import SparseColumns, stack


@dataclass(frozen=True)
class LinearPredictor:
    """A linear predictor, read from a model."""

    design: Design  #: The rows: numbers only, frozen when they were read.
    #: ``w(theta)``: a float64 vector, a graph of value variables without data-sized parts.
    coefficients: TensorVariable
    rows: np.ndarray | None = None  #: Indices of the observed values that have rows, if not all.


def read_predictor(
    eta: TensorVariable,
    n_rows: int,
    name: str,
    shapes: Shapes,
    values: Mapping[Variable, np.ndarray] | None = None,
    nuisances: Sequence[TensorVariable] = (),
    certain: np.ndarray | None = None,
) -> LinearPredictor:
    """Split a linear predictor into a design and a coefficient vector.

    `eta` is a vector of length N (or of length 1, or a scalar: the same for every row), or a matrix
    with a column for each predictor, in terms of value variables. Shared variables count as
    constants with their current value, or with `values`. Nuisance parameters are the last
    coefficients. Observed values that are `certain`, shape (N,), have the likelihood one where
    their first predictor is minus infinity, such as a count of zero at an exposure of zero. They
    have no rows there.

    ``design.X`` is the user's own memory if the predictor has exactly one design matrix (in C
    order, float64 or float32), else a new matrix of all columns. A predictor that is not linear in
    data-sized terms, data that are not finite, and another number of rows are refused.
    """
    split = split_predictor(eta, n_rows, name, shapes, values)
    # Chunks of rows out of core skip this, as only their design is needed.
    predictor = replace(split, coefficients=fold_constants(split.coefficients))
    rows = None if certain is None else rows_with_a_mean(predictor.design, certain, name)
    if rows is not None:
        predictor = replace(predictor, design=predictor.design.rows(rows), rows=rows)
        eta = eta[rows]
    check_finite(predictor.design, name)
    if values is None:  # the coefficients of other rows hold none
        check_coefficients(predictor.design, predictor.coefficients, name)
    check_predictor(predictor.design, predictor.coefficients, eta, name, shapes)
    if not nuisances:
        return predictor
    known = [fold_constants(freeze(nuisance, shapes)) for nuisance in nuisances]
    w = pt.join(0, predictor.coefficients, pt.stack(known).astype("float64"))
    design = replace(predictor.design, n_nuisances=len(known))
    return replace(predictor, design=design, coefficients=w)


def split_predictor(
    eta: TensorVariable,
    n_rows: int,
    name: str,
    shapes: Shapes,
    values: Mapping[Variable, np.ndarray] | None = None,
) -> LinearPredictor:
    """Split a linear predictor, as `read_predictor` does, without checking the result.

    With `values`, other rows of shared variables, the result holds for any rows: the design has the
    same columns, with the same coefficients in the same order.
    """
    random = [v for v in free_inputs([eta]) if not isinstance(v.type, TensorType)]
    if random and hasattr(random[0].type, "dims"):
        is_data = isinstance(random[0], SharedVariable)
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} depends on {random[0].name!r}, a variable of "
            f"pymc.dims: write it with {'pm.Data' if is_data else ALTERNATIVES['dims']}"
        )
    if random:
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} depends on {random[0]}: it is not a function of "
            "the model's variables (random numbers of pm.Minibatch, or made with .dist(), do not "
            "belong to these)"
        )
    frozen = freeze(eta, shapes, values)
    check_integers(frozen, f"the linear predictor of {name!r}")
    if frozen.ndim > 1 and frozen.type.shape[1] is None:
        raise UnsupportedModelError(
            f"the number of columns of the predictor eta of {name!r} is open: give it, as in "
            "pt.specify_shape(eta, (None, 3))"
        )
    columns = [frozen[:, k] for k in range(frozen.type.shape[1])] if frozen.ndim > 1 else [frozen]
    traversals = [Traversal(column, n_rows, name, values is not None) for column in columns]
    return _assemble(traversals, name)


def _assemble(traversals: list[Traversal], name: str) -> LinearPredictor:
    """Return one design matrix and one coefficient vector of all traversals."""
    any_rows = traversals[0].context.any_rows
    merged = [_merge(each.blocks, any_rows) for each in traversals]
    if len(traversals) == 1 and not any_rows:
        merged = [_add_up(merged[0])]
    arrays = {key: block.array for found in merged for key, block in found.items()}
    matrices, sparse_weights = _merge_sparse([each.sparse for each in traversals], any_rows)
    sums = [fold_constants(sum(each.intercepts, pt.constant(0.0))) for each in traversals]
    has_intercept = any(not isinstance(intercept, Constant) for intercept in sums)
    has_offset = any(each.offset.size for each in traversals)
    offsets: list[np.ndarray] = []
    coefficients: list[TensorVariable] = []
    for each, found, intercept, weights in zip(
        traversals, merged, sums, sparse_weights, strict=True
    ):
        offset = each.offset if each.offset.size else np.zeros(each.n_rows)
        for key, array in arrays.items():
            missing = key not in found
            coefficients.append(pt.zeros(array.shape[1]) if missing else found[key].weight)
        if has_intercept:
            coefficients.append(intercept.dimshuffle("x"))
        elif isinstance(intercept, Constant) and intercept.data != 0:
            # A constant intercept is added to the offset, and needs no coefficient.
            offset, has_offset = offset + float(intercept.data), True
        offsets.append(offset)
        coefficients.extend(weights)
    if not coefficients:
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} depends on no free variable: nothing to sample"
        )
    w = coefficients[0] if len(coefficients) == 1 else pt.join(0, *coefficients)
    offset = np.stack(offsets, axis=1)
    # An offset that is zero for these rows need not be zero for others.
    if not (has_offset if any_rows else offset.any()):
        offset = np.empty((0, len(traversals)))
    X = gather(list(arrays.values()), traversals[0].n_rows)
    design = Design(X, offset, has_intercept, sparse=stack(matrices))
    if design.n_predictors > 1 and not design.format.written_out:
        raise UnsupportedModelError(
            f"each of the {design.n_predictors} predictors of {name!r} has {design.width} "
            f"coefficients; with effects of groups or sparse columns, likelihoods of several "
            f"predictors may have {LARGEST_DENSE} for each"
        )
    return LinearPredictor(design, w.astype("float64"))


def _merge_sparse(
    found: list[list[SparseBlock]], any_rows: bool
) -> tuple[list[SparseColumns], list[list[TensorVariable]]]:
    """Return the distinct sparse matrices, and their coefficients for each predictor."""
    # Blocks with the same matrix are merged by adding their coefficients. If there is one
    # predictor, blocks with the same coefficients are merged by adding their matrices, as for
    # skill[home] - skill[away].
    if len(found) == 1:
        unique: list[SparseBlock] = []
        for block in found[0]:
            twins = [i for i, one in enumerate(unique) if _same_graph(one.weight, block.weight)]
            if twins:
                twin = unique[twins[0]]
                unique[twins[0]] = SparseBlock(twin.matrix + block.matrix, block.weight)
            else:
                unique.append(block)
        found = [unique]
    distinct: list[SparseBlock] = []
    weights: list[list[TensorVariable | None]] = [[] for _ in found]
    for k, blocks in enumerate(found):
        for block in blocks:
            positive, sign = block.matrix.positive()
            if sign < 0.0 and not any_rows:  # a difference of classes
                block = SparseBlock(positive, -block.weight)
            found_at = (i for i, one in enumerate(distinct) if _same(one, block, any_rows))
            place = next(found_at, None)
            if place is None:
                place = len(distinct)
                distinct.append(block)
                for each in weights:
                    each.append(None)
            before = weights[k][place]
            weights[k][place] = block.weight if before is None else before + block.weight
    matrices = [each.matrix for each in distinct]
    filled = [
        [pt.zeros(m.n_columns) if v is None else v for m, v in zip(matrices, each, strict=True)]
        for each in weights
    ]
    return matrices, filled


def _same_graph(a: TensorVariable, b: TensorVariable) -> bool:
    return a.type.shape == b.type.shape and equal_computations([a], [b])


def _same(a: SparseBlock, b: SparseBlock, any_rows: bool) -> bool:
    if any_rows:
        return a.origin is not None and a.origin == b.origin
    return a.matrix.same_as(b.matrix)


def _merge(found: list[Block], any_rows: bool) -> dict[Hashable, Block]:
    """Return blocks with the coefficients of equal blocks summed: ``X @ a + X @ b``."""
    # Blocks are equal if they share memory, or, with any_rows, if they have the same origin.
    merged: dict[Hashable, Block] = {}
    for block in found:
        array = block.array
        key: Hashable = (array.__array_interface__["data"], array.shape, array.strides, array.dtype)
        if any_rows:
            key = id(array) if block.origin is None else block.origin
        if key in merged:
            block = replace(block, weight=merged[key].weight + block.weight)
        merged[key] = block
    return merged


def _add_up(found: dict[Hashable, Block]) -> dict[Hashable, Block]:
    """Return sums of blocks with the same coefficients, as of vertically concatenated terms."""
    if len(found) < 2:
        return found
    first = first_equals(pt.join(0, *(block.weight for block in found.values())))
    added: dict[Hashable, Block] = {}
    for block in found.values():
        key = first[block.weight]
        if key in added:
            # As numbers: the sum of two truth values is one, and the sum of two bytes may overflow.
            block = Block(np.add(added[key].array, block.array, dtype=np.float64), block.weight)
        added[key] = block
    return added
