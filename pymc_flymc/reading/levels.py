"""Ordered levels as rows of a regression: their comparisons with the cutpoints next to them."""

from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import Shapes, evaluate, fold_constants, free_inputs, freeze
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.reading.observed_rows import Observation, ObservedRows
from pymc_flymc.reading.predictor import read_predictor
from pymc_flymc.regression.regression import Regression


def read_levels(observation: Observation, parameters: RowParameters) -> ObservedRows:
    """Read an observed variable of ordered levels, 0 to K - 1.

    Its regression has a row for each comparison: first of levels with the cutpoints below them,
    then of levels with the cutpoints above them; y is whether the level is above. The lowest level
    has no cutpoint below it, the highest none above it. Coefficients are for the dense columns, the
    cutpoints, the intercept and the sparse columns. In addition to the comparisons, the likelihood
    of level k has the factor ``1 - exp(c_(k-1) - c_k)``. If cutpoints do not increase, its
    logarithm is minus infinity.
    """
    name, shapes = observation.name, observation.shapes
    cutpoints, n_cutpoints = known_cutpoints(parameters, shapes, name)
    levels = _check_levels(observation.values.reshape(-1), n_cutpoints, name)
    # The first cutpoint is part of the predictor, as its only intercept.
    first = read_predictor(parameters.predictors - cutpoints[0], len(levels), name, shapes)
    below, above = np.flatnonzero(levels > 0), np.flatnonzero(levels < n_cutpoints)
    rows = np.concatenate([below, above])
    places = np.concatenate([levels[below] - 1, levels[above]])
    y = np.concatenate([np.ones(len(below), np.int8), np.zeros(len(above), np.int8)])
    further, design = fold_constants(cutpoints[1:] - cutpoints[0]), first.design
    # The parts of the design, other than dense columns, that comparisons repeat.
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
    regression = Regression(name, design, y, parameters.likelihood)
    part = observation.part(regression, fold_constants(w), rows)
    steps, zero = cutpoints[1:] - cutpoints[:-1], pt.zeros((1,))
    terms = pt.join(0, zero, pt.log1mexp(-steps), zero)[levels]
    counts = np.bincount(levels, observation.weights, n_cutpoints + 1)[1:-1].astype(np.float64)
    # Cutpoints that do not increase have no density, even around a level without values.
    of_levels = pt.switch(steps > 0.0, counts * pt.log1mexp(-steps), -np.inf)
    rest = pt.sum(of_levels) if n_cutpoints > 1 else pt.constant(0.0)
    return observation.result([part], rest, terms)


def known_cutpoints(
    parameters: RowParameters, shapes: Shapes, name: str
) -> tuple[TensorVariable, int]:
    """Return the graph of the cutpoints, with the current data, and their number."""
    assert parameters.cutpoints is not None
    cutpoints = fold_constants(freeze(parameters.cutpoints.astype("float64"), shapes))
    (n_cutpoints,) = cutpoints.type.shape
    if n_cutpoints is None:
        raise UnsupportedModelError(
            f"the number of cutpoints of {name!r} is open: give it, as in "
            "pt.specify_shape(cutpoints, (3,))"
        )
    if not free_inputs([cutpoints]):
        _check_increasing(evaluate(cutpoints), name)
    return cutpoints, n_cutpoints


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
