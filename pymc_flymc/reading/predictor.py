"""Read a linear predictor: split its PyTensor graph into a design and a coefficient vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.math import Dot
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import (
    Shapes,
    check_integers,
    copy_graphs,
    first_equals,
    fold_constants,
    free_inputs,
    freeze,
    plain_function,
)
from pymc_flymc.likelihoods.checks import ALTERNATIVES
from pymc_flymc.reading.terms import Columns, Terms, add_up
from pymc_flymc.reading.unreadable import op_type
from pymc_flymc.regression.design import Design, blocks, gather, stack

_N_CHECKS = 2
_RTOL = 1e-9


def check_finite(design: Design, name: str) -> None:
    """Refuse rows that hold NaN or infinite values."""
    for what, bad in design.count_bad_rows().items():
        if bad:
            instead = "drop or impute these rows"
            if what == "offset" and design.n_predictors > 1:
                instead += "; alternatives that are not available have np.where(available, 0, -1e3)"
            raise ValueError(
                f"the {what} of {name!r} has NaN or infinite values in {bad} of "
                f"{design.n_rows} rows; {instead}"
            )


def rows_with_a_mean(design: Design, certain: np.ndarray, name: str) -> np.ndarray | None:
    """Return the rows of counts whose mean is not zero whatever the variables; None if all are.

    `certain` says which counts are zero, as they are without a mean; others are refused.
    """
    if not design.offset.size or not (empty := np.isneginf(design.offset[:, 0])).any():
        return None
    bad = np.flatnonzero(empty & ~certain)
    if bad.size:
        raise ValueError(
            f"{name} has counts above zero where the mean is zero, as of an exposure of zero "
            f"({bad.size}, first in row {bad[0]}); correct or drop these rows"
        )
    return np.flatnonzero(~empty)


def check_coefficients(design: Design, coefficients: TensorVariable, name: str) -> None:
    """Refuse a coefficient vector that would read all rows at each evaluation."""
    n_rows = design.n_rows
    if design.n_coefficients >= n_rows:
        return
    for v in ancestors([coefficients]):
        if isinstance(v, TensorConstant) and n_rows in v.type.shape:
            raise UnsupportedModelError(
                f"a coefficient in the linear predictor of {name!r} is itself computed from all "
                f"{n_rows} rows together with model variables (for instance a mean over rows of "
                "X @ beta); centre the data before the model instead"
            )


def check_predictor(
    design: Design, coefficients: TensorVariable, eta: TensorVariable, name: str, shapes: Shapes
) -> None:
    """Compare the model's own predictor with the one read, at random values of the variables."""
    inputs = free_inputs([eta])
    both = plain_function(inputs, [_multiplied_in_blocks(eta), coefficients])
    rng = np.random.default_rng(20260101)
    rtol = _RTOL
    if any(v.type.dtype == "float32" for v in ancestors([eta]) if v.owner and v.type.ndim):
        rtol = float(np.finfo(np.float32).eps) * max(64, design.n_coefficients)
    values, found_w, bad = [], [], np.ones(design.n_rows, bool)
    for attempt in range(4 * _N_CHECKS):
        # Smaller values are tried if the graph overflows at larger ones (exp of exp), and positive
        # values if it is finite for these alone (roots and logarithms).
        spread = 0.5 ** (attempt // 2)
        numbers = [spread * rng.standard_normal(shapes.get(v, v.type.shape)) for v in inputs]
        if attempt >= _N_CHECKS and attempt % 2:
            numbers = [np.abs(each) for each in numbers]
        pairs = zip(numbers, inputs, strict=True)
        point = [np.asarray(each).astype(v.type.dtype) for each, v in pairs]
        with np.errstate(all="ignore"):
            expected, w = both(*point)
        expected = expected if expected.ndim > 1 else np.reshape(expected, (-1, 1))
        finite = np.isfinite(expected).all(axis=1)
        if np.isfinite(w).all():
            bad = bad & ~finite
            if finite.all():
                values.append(expected)
                found_w.append(w)
        if len(values) == _N_CHECKS:
            break
    else:
        if 0 < bad.sum() < len(bad):
            raise ValueError(
                f"the linear predictor of {name!r} is NaN or infinite in {bad.sum()} of {len(bad)} "
                f"rows, whatever the variables, first in row {np.argmax(bad)}; drop or impute "
                "these rows"
            )
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} is not finite at random values of the model's "
            "variables, so that its reading could not be checked. Of what rows look up as it is, "
            "probabilities need priors within 0 and 1, such as pm.Beta, and rates and scales need "
            f"priors of positive values, such as pm.Gamma"
        )
    found, sizes = design.predictors(np.stack(found_w))
    for i, expected in enumerate(values):
        # A row's rounding error is in proportion to the absolute sum of its terms.
        error, scale = found[:, i] - expected, sizes[:, i]
        scale += scale.mean()
        if np.any(np.abs(error, out=error) > np.multiply(rtol, scale, out=scale)):
            raise UnsupportedModelError(
                f"the linear predictor of {name!r} was read wrongly: its value differs from the "
                f"model's own by up to {error.max():.3g}. Please report this model; writing the "
                "predictor as X @ beta + intercept avoids the problem"
            )


@wrap_py([pt.fmatrix, pt.dmatrix], [pt.dmatrix])
def _product(X: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty((X.shape[0], b.shape[1]))
    for rows in blocks(X):
        out[rows] = X[rows].astype(np.float64) @ b
    return out


def _multiplied_in_blocks(variable: TensorVariable) -> TensorVariable:
    """Return a graph of the same value that multiplies float32 by float64 in blocks of rows."""
    # NumPy converts the whole matrix first, and takes several times as long.

    def replaced(node: Apply, inputs: Sequence[Any]) -> list[Any] | None:
        types = [(v.type.ndim, v.type.dtype) for v in inputs] if op_type(node) is Dot else []
        if types != [(2, "float32"), (2, "float64")]:
            return None
        return [pt.specify_shape(_product(*inputs), node.outputs[0].type.shape)]

    return copy_graphs([variable], replaced)[0]


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
    values: Mapping[Variable, np.ndarray] | None,
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
    return _assemble([Terms(each, n_rows, name, values is not None) for each in columns], name)


def _assemble(predictors: list[Terms], name: str) -> LinearPredictor:
    """Return one design matrix and one coefficient vector of all predictors."""
    any_rows = predictors[0].any_rows
    arrays, dense = _distinct([each.dense for each in predictors], any_rows)
    matrices, sparse = _distinct([each.sparse for each in predictors], any_rows)
    sums = [fold_constants(sum(each.intercepts, pt.constant(0.0))) for each in predictors]
    has_intercept = any(not isinstance(intercept, Constant) for intercept in sums)
    has_offset = any(each.offset.size for each in predictors)
    offsets: list[np.ndarray] = []
    coefficients: list[TensorVariable] = []
    for each, of_dense, intercept, of_sparse in zip(predictors, dense, sums, sparse, strict=True):
        offset = each.offset if each.offset.size else np.zeros(each.n_rows)
        coefficients.extend(of_dense)
        if has_intercept:
            coefficients.append(intercept.dimshuffle("x"))
        elif isinstance(intercept, Constant) and intercept.data != 0:
            # A constant intercept is added to the offset, and needs no coefficient.
            offset, has_offset = offset + float(intercept.data), True
        offsets.append(offset)
        coefficients.extend(of_sparse)
    if not coefficients:
        raise UnsupportedModelError(
            f"the linear predictor of {name!r} depends on no free variable: nothing to sample"
        )
    w = coefficients[0] if len(coefficients) == 1 else pt.join(0, *coefficients)
    offset = np.stack(offsets, axis=1)
    # An offset that is zero for these rows need not be zero for others.
    if not (has_offset if any_rows else offset.any()):
        offset = np.empty((0, len(predictors)))
    X = gather(arrays, predictors[0].n_rows)
    design = Design(X, offset, has_intercept, sparse=stack(matrices))
    return LinearPredictor(design, w.astype("float64"))


def _distinct(
    predictors: list[list[Columns]], any_rows: bool
) -> tuple[list[Any], list[list[TensorVariable]]]:
    """Return the distinct matrices, and their coefficients for each predictor."""
    # Coefficients of equal matrices are summed, X @ a + X @ b. If there is one predictor, matrices
    # with equal coefficients are, as for skill[home] - skill[away], or terms one below the other.
    distinct: list[Columns] = []
    weights: list[dict[int, TensorVariable]] = [{} for _ in predictors]
    for own, terms in zip(weights, predictors, strict=True):
        for each in terms:
            # A difference of classes has one sign in one class, and the other in another.
            term = each if any_rows or len(predictors) == 1 else each.positive()
            same = (i for i, one in enumerate(distinct) if one.same_as(term, any_rows))
            place = next(same, len(distinct))
            distinct[place:] = distinct[place:] or [term]
            own[place] = own[place] + term.weight if place in own else term.weight
    matrices = [each.matrix for each in distinct]
    if len(predictors) == 1 and len(matrices) > 1:
        first = first_equals(pt.join(0, *weights[0].values()))
        added: dict[Variable, Any] = {}
        for i, matrix in enumerate(matrices):
            key = first[weights[0][i]]
            added[key] = add_up(added[key], matrix) if key in added else matrix
        return [*added.values()], [[*added]]  # type: ignore[list-item]
    zeros = [pt.zeros(each.width) for each in distinct]
    return matrices, [[own.get(i, zero) for i, zero in enumerate(zeros)] for own in weights]
