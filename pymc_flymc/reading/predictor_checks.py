"""Checks of a linear predictor that was read: its numbers, and its value."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
from pytensor.graph.basic import Apply
from pytensor.graph.traversal import ancestors
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import Shapes, copy_graphs, free_inputs, plain_function
from pymc_flymc.reading.cotangent import op_type
from pymc_flymc.regression.design import Design, blocks

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
