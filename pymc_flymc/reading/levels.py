"""Ordered levels as rows of a regression: their comparisons with the cutpoints next to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, fold_constants, free_inputs, freeze
from pymc_flymc.likelihoods import RowParameters
from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.regression.design import Design

__all__ = ["Comparisons", "read_levels"]


@dataclass(frozen=True)
class Comparisons:
    """Comparisons of observed levels with cutpoints, and what the likelihood has beside them.

    Attributes
    ----------
    design : Design
        A row for each comparison: first of levels with the cutpoints below them, then of levels
        with the cutpoints above them. The lowest level has none below it, the highest none above.
    coefficients : TensorVariable
        Those of the dense columns, the cutpoints, the intercept and the sparse columns.
    y : ndarray of int8
        Whether the level is above the cutpoint.
    rows : ndarray of int, shape of y
        Which of the observed values it is.
    rest : TensorVariable
        Scalar: the logarithm of the product of ``1 - exp(c_(k-1) - c_k)`` over the observed values,
        k being their levels; minus infinity where cutpoints do not increase.
    terms : TensorVariable
        Shape (N,): of each observed value, without weights.
    """

    design: Design
    coefficients: TensorVariable
    y: np.ndarray
    rows: np.ndarray
    rest: TensorVariable
    terms: TensorVariable


def read_levels(
    parameters: RowParameters,
    values: np.ndarray,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]],
    weights: np.ndarray | None = None,
) -> Comparisons:
    """Read an observed variable of ordered levels.

    Parameters
    ----------
    parameters : RowParameters
        With cutpoints.
    values : ndarray, shape (N,)
        Observed levels.
    name : str
        Name of the observed variable.
    shapes : mapping
        Shapes of the value variables.
    weights : ndarray, shape (N,), optional
        Of the observed values.

    Raises
    ------
    UnsupportedModelError
        If the predictor cannot be read.
    ValueError
        If levels are not 0 to K - 1, or if cutpoints are given and do not increase.
    """
    assert parameters.cutpoints is not None
    cutpoints = fold_constants(freeze(parameters.cutpoints.astype("float64"), shapes))
    (n_cutpoints,) = cutpoints.type.shape
    if n_cutpoints is None:
        raise UnsupportedModelError(f"the number of cutpoints of {name!r} is open")
    if not free_inputs([cutpoints]):
        _check_increasing(evaluate(cutpoints), name)
    levels = _check_levels(values, n_cutpoints, name)
    # With the first cutpoint in it the predictor has the intercept that it needs, and just one.
    first = read_predictor(parameters.predictors - cutpoints[0], len(levels), name, shapes)
    below, above = np.flatnonzero(levels > 0), np.flatnonzero(levels < n_cutpoints)
    rows = np.concatenate([below, above])
    places = np.concatenate([levels[below] - 1, levels[above]])
    y = np.concatenate([np.ones(len(below), np.int8), np.zeros(len(above), np.int8)])
    further, design = fold_constants(cutpoints[1:] - cutpoints[0]), first.design
    # What is repeated for the comparisons, beside the dense columns.
    repeated = replace(design, X=design.X[:, :0]).rows(rows)
    if not free_inputs([further]):
        offset = repeated.offset if repeated.offset.size else np.zeros((len(rows), 1))
        numbers = np.append(0.0, evaluate(further))[places]
        design = replace(repeated, X=design.X[rows], offset=offset - numbers[:, None])
        w = first.coefficients
    else:
        n_columns = design.X.shape[1]
        X = np.zeros((len(rows), n_columns + n_cutpoints - 1), design.X.dtype)
        np.take(design.X, rows, axis=0, out=X[:, :n_columns], mode="clip")
        later = np.flatnonzero(places)
        X[later, n_columns + places[later] - 1] = 1.0
        design = replace(repeated, X=X)
        w = pt.join(0, first.coefficients[:n_columns], -further, first.coefficients[n_columns:])
    rest = _rest(cutpoints, levels, weights)
    return Comparisons(design, fold_constants(w), y, rows, rest, _terms(cutpoints, levels))


def _terms(cutpoints: TensorVariable, levels: np.ndarray) -> TensorVariable:
    """Graph of what `_rest` adds up: zero at the lowest and the highest level."""
    zero = pt.zeros((1,))
    steps = cutpoints[1:] - cutpoints[:-1]
    return pt.join(0, zero, pt.log1mexp(-steps), zero)[levels]


def _rest(
    cutpoints: TensorVariable, levels: np.ndarray, weights: np.ndarray | None
) -> TensorVariable:
    """Graph of sum_k N_k log(1 - exp(c_(k-1) - c_k)), for the N_k values of each inner level."""
    n_inner = cutpoints.type.shape[0] - 1
    if n_inner == 0:
        return pt.constant(0.0)
    counts = np.bincount(levels, weights, n_inner + 2)[1:-1].astype(np.float64)
    steps = cutpoints[1:] - cutpoints[:-1]
    # The density of a level without values is not a matter of cutpoints that do not increase.
    terms = pt.switch(steps > 0.0, counts * pt.log1mexp(-steps), -np.inf)
    return pt.sum(terms)


def _check_increasing(cutpoints: np.ndarray, name: str) -> None:
    good = np.isfinite(cutpoints)
    good[1:] &= cutpoints[1:] > cutpoints[:-1]
    bad = np.flatnonzero(~good)
    if bad.size:
        raise ValueError(
            f"cutpoints of the observed variable {name!r} must be finite and increase, and number "
            f"{bad[0]} of them is {cutpoints[bad[0]]:g}"
            + (f", after {cutpoints[bad[0] - 1]:g}" if bad[0] else "")
        )


def _check_levels(values: np.ndarray, n_cutpoints: int, name: str) -> np.ndarray:
    """Return levels as integers."""
    values = np.asarray(values)
    good = (values == np.floor(values)) & (values >= 0) & (values <= n_cutpoints)
    bad = np.flatnonzero(~good)
    if bad.size:
        raise ValueError(
            f"{name} has {bad.size} values other than the levels 0 to {n_cutpoints}, of which its "
            f"{n_cutpoints} cutpoints are the limits, first in row {bad[0]}: {values[bad[0]]}; "
            "recode them or drop these rows"
        )
    return values.astype(np.int64)
