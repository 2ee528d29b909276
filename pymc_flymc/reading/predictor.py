"""Read a linear predictor: split its PyTensor graph into a design and a coefficient vector.

The graph is walked from the predictor down (``walk``); this module puts the pieces that the
walk returns together and checks the outcome by evaluating both forms.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable
from scipy.sparse import csr_array

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import fold_constants, free_inputs, freeze, plain_function
from pymc_flymc.likelihoods import RowParameters
from pymc_flymc.reading.lookups import SparseBlock
from pymc_flymc.reading.tall_products import multiply_in_blocks
from pymc_flymc.reading.walk import Block, Walk
from pymc_flymc.regression.design import STRUCTURED, Design, count_bad_rows, gather, stack

_N_CHECKS = 2
_RTOL = 1e-9


@dataclass(frozen=True)
class LinearPredictor:
    """A linear predictor, read from a model.

    Attributes
    ----------
    design : Design
        The rows: numbers only, frozen when they were read.
    coefficients : TensorVariable
        ``w(theta)``: float64 vector of length ``design.n_coefficients``, a graph of the model's
        value variables that holds nothing of the size of the data.
    """

    design: Design
    coefficients: TensorVariable


def read_parameters(
    parameters: RowParameters,
    n_rows: int,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]] | None = None,
) -> LinearPredictor:
    """Read the parameters of an observed variable: its predictor and its nuisance parameters.

    Arguments, result and errors are those of `read_predictor`. The nuisance parameters are the
    last elements of the coefficients.
    """
    predictor = read_predictor(parameters.predictors, n_rows, name, shapes)
    if not parameters.nuisances:
        return predictor
    nuisances = [
        fold_constants(freeze(nuisance, shapes or {})) for nuisance in parameters.nuisances
    ]
    w = pt.join(0, predictor.coefficients, pt.stack(nuisances).astype("float64"))
    return LinearPredictor(replace(predictor.design, n_nuisances=len(nuisances)), w)


def read_predictor(
    eta: TensorVariable,
    n_rows: int,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]] | None = None,
) -> LinearPredictor:
    """Split a linear predictor into a design and a coefficient vector.

    Parameters
    ----------
    eta : TensorVariable
        Vector of length N (or of length 1, or a scalar: the same for every row), or matrix with a
        column for each predictor, in terms of value variables. Shared variables count as
        constants with their value of now.
    n_rows : int
        N, the number of observed values.
    name : str
        Name of the observed variable, for messages.
    shapes : mapping, optional
        Shapes of the value variables. Needed for those whose type leaves its shape open.

    Returns
    -------
    LinearPredictor
        Its ``design.X`` is the user's own memory if the predictor has exactly one design matrix
        (in C order, float64 or float32), else a new matrix that gathers all columns.

    Raises
    ------
    UnsupportedModelError
        If the predictor is not linear in data-sized terms, or is written in a way that this
        release cannot read.
    ValueError
        If the design or the offset holds NaN or infinite values, or another number of rows.
    """
    shapes = shapes or {}
    foreign = [v for v in free_inputs([eta]) if not isinstance(v.type, TensorType)]
    if foreign:
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} depends on {foreign[0]}: it is not a function of "
            "the model's variables (random numbers, of pm.Minibatch or made with .dist(), are none)"
        )
    frozen = freeze(eta, shapes)
    if frozen.ndim > 1 and frozen.type.shape[1] is None:
        raise UnsupportedModelError(f"the number of columns of the predictor of {name!r} is open")
    columns = [frozen[:, k] for k in range(frozen.type.shape[1])] if frozen.ndim > 1 else [frozen]
    walks = [Walk(column, n_rows, name) for column in columns]
    predictor = _assemble(walks, name)
    _check_finite(predictor.design, name)
    _check_coefficients(predictor, name)
    _check_values(predictor, eta, name, shapes)
    return predictor


def _assemble(walks: list[Walk], name: str) -> LinearPredictor:
    """Gather what was found into one design matrix and one coefficient vector."""
    merged = [_merge(walk.blocks) for walk in walks]
    arrays = {key: block.array for found in merged for key, block in found.items()}
    matrices, sparse_weights = _merge_sparse([walk.sparse for walk in walks])
    sums = [fold_constants(pt.add(0.0, *walk.intercepts)) for walk in walks]
    has_intercept = any(not isinstance(intercept, Constant) for intercept in sums)
    offsets: list[np.ndarray] = []
    coefficients: list[TensorVariable] = []
    for walk, found, intercept, weights in zip(walks, merged, sums, sparse_weights, strict=True):
        offset = walk.offset if walk.offset.size else np.zeros(walk.n_rows)
        for key, array in arrays.items():
            missing = key not in found
            coefficients.append(pt.zeros(array.shape[1]) if missing else found[key].weight)
        if has_intercept:
            coefficients.append(intercept.dimshuffle("x"))
        elif isinstance(intercept, Constant) and intercept.data != 0:
            # A plain number: no coefficient has to carry it.
            offset = offset + float(intercept.data)
        offsets.append(offset)
        coefficients.extend(weights)
    if not coefficients:
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} depends on no free variable: nothing to sample"
        )
    w = coefficients[0] if len(coefficients) == 1 else pt.join(0, *coefficients)
    offset = np.stack(offsets, axis=1)
    if not offset.any():
        offset = np.empty((0, len(walks)))
    X = gather(list(arrays.values()), walks[0].n_rows)
    design = Design(X, offset, has_intercept, sparse=stack(matrices))
    if design.structured and design.n_predictors > 1:
        raise UnsupportedModelError(
            f"each of the {design.n_predictors} predictors of {name!r} has {design.width} "
            f"coefficients; with effects of groups or sparse columns at most {STRUCTURED} are "
            "supported where there are several predictors"
        )
    return LinearPredictor(design, fold_constants(w.astype("float64")))


def _merge_sparse(
    found: list[list[SparseBlock]],
) -> tuple[list[csr_array], list[list[TensorVariable]]]:
    """Return sparse matrices, each once, and their coefficients for each predictor.

    The coefficients of blocks with the same matrix add up. Of one predictor's blocks with the same
    coefficients, ``skill[home] - skill[away]``, the matrices do.
    """
    if len(found) == 1:
        unique: list[SparseBlock] = []
        for block in found[0]:
            twins = [i for i, one in enumerate(unique) if _same_graph(one.weight, block.weight)]
            if twins:
                unique[twins[0]] = SparseBlock(unique[twins[0]].matrix + block.matrix, block.weight)
            else:
                unique.append(block)
        found = [unique]
    matrices: list[csr_array] = []
    weights: list[list[TensorVariable | None]] = [[] for _ in found]
    for k, blocks in enumerate(found):
        for block in blocks:
            if block.matrix.data.size and block.matrix.data[0] < 0:  # of a difference of classes
                block = SparseBlock(-block.matrix, -block.weight)
            place = next((i for i, m in enumerate(matrices) if _same_matrix(m, block.matrix)), None)
            if place is None:
                place = len(matrices)
                matrices.append(block.matrix)
                for each in weights:
                    each.append(None)
            before = weights[k][place]
            weights[k][place] = block.weight if before is None else before + block.weight
    filled = [
        [pt.zeros(m.shape[1]) if v is None else v for m, v in zip(matrices, each, strict=True)]
        for each in weights
    ]
    return matrices, filled


def _same_graph(a: TensorVariable, b: TensorVariable) -> bool:
    return a.type.shape == b.type.shape and equal_computations([a], [b])


def _same_matrix(a: csr_array, b: csr_array) -> bool:
    return a.shape == b.shape and all(
        np.array_equal(getattr(a, part), getattr(b, part)) for part in ("indptr", "indices", "data")
    )


def _merge(found: list[Block]) -> dict[Hashable, Block]:
    """Add up the coefficients of blocks that are the same memory: ``X @ a + X @ b``."""
    merged: dict[Hashable, Block] = {}
    for block in found:
        array = block.array
        key = (array.__array_interface__["data"], array.shape, array.strides, array.dtype)
        if key in merged:
            block = Block(array, merged[key].weight + block.weight)
        merged[key] = block
    return merged


def _check_finite(design: Design, name: str) -> None:
    """Refuse rows that hold NaN or infinite values."""
    bad_rows = {"design": count_bad_rows(design.X), "offset": count_bad_rows(design.offset)}
    if design.sparse is not None:
        places = np.flatnonzero(~np.isfinite(design.sparse.data))
        rows = np.searchsorted(design.sparse.indptr, places, side="right")
        bad_rows["sparse design"] = len(np.unique(rows))
    for what, bad in bad_rows.items():
        if bad:
            raise ValueError(
                f"the {what} of {name!r} has NaN or infinite values in {bad} of "
                f"{design.n_rows} rows; drop or impute these rows"
            )


def _check_coefficients(predictor: LinearPredictor, name: str) -> None:
    """Refuse a coefficient vector that would read all rows at each evaluation."""
    n_rows = predictor.design.n_rows
    if predictor.design.n_coefficients >= n_rows:
        return
    for v in ancestors([predictor.coefficients]):
        if isinstance(v, TensorConstant) and n_rows in v.type.shape:
            raise UnsupportedModelError(
                f"a coefficient in the linear predictor of {name!r} is itself computed from all "
                f"{n_rows} rows together with model variables (for instance a mean over rows of "
                "X @ beta); centre the data before the model instead"
            )


def _check_values(
    predictor: LinearPredictor,
    eta: TensorVariable,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]],
) -> None:
    """Compare the model's own predictor with the one read, at random values of the variables."""
    design = predictor.design
    inputs = free_inputs([eta])
    both = plain_function(inputs, [multiply_in_blocks(eta), predictor.coefficients])
    rng = np.random.default_rng(20260101)
    rtol = _RTOL
    if any(v.type.dtype == "float32" for v in ancestors([eta]) if v.owner and v.type.ndim):
        rtol = float(np.finfo(np.float32).eps) * max(64, design.n_coefficients)
    values, coefficients = [], []
    for attempt in range(4 * _N_CHECKS):
        # Smaller values if the graph overflows at larger ones (exp of exp).
        spread = 0.5 ** (attempt // 2)
        point = [
            np.asarray(spread * rng.standard_normal(shapes.get(v, v.type.shape))).astype(
                v.type.dtype
            )
            for v in inputs
        ]
        with np.errstate(all="ignore"):
            expected, w = both(*point)
        if np.isfinite(w).all() and np.isfinite(expected).all():
            values.append(expected if expected.ndim > 1 else np.reshape(expected, (-1, 1)))
            coefficients.append(w)
        if len(values) == _N_CHECKS:
            break
    else:
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} is not finite at random values of the model's "
            "variables, so that its reading could not be checked"
        )
    found, sizes = design.predictors(np.stack(coefficients))
    for i, expected in enumerate(values):
        # A row's rounding error scales with the terms that it may have met.
        error, scale = found[:, i] - expected, sizes[:, i]
        scale += scale.mean()
        if np.any(np.abs(error, out=error) > np.multiply(rtol, scale, out=scale)):
            raise UnsupportedModelError(
                f"the linear predictor of {name!r} was read wrongly: its value differs from the "
                f"model's own by up to {error.max():.3g}. Please report this model; writing the "
                "predictor as X @ beta + intercept avoids the problem"
            )
