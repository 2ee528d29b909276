"""Scales of effects whose covariance has a Cholesky factor that is sampled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable

from pymc_flymc.reading.one_variable import compile_given, only_variable

__all__ = ["rows_of_factor"]

#: Change of a scale's logarithm that is tried, and what entries of the covariance may differ by.
CHANGE, ROUNDING = 0.3, 1e-9


def rows_of_factor(
    covariance: Variable, model: Model, shapes: Mapping[Variable, tuple[int, ...]]
) -> tuple[Variable, list[np.ndarray]] | None:
    """Return the variable that holds a Cholesky factor, and the places of the factor's rows in it.

    The factor is packed row after row, with the logarithms of its diagonal, which ends each row: a
    larger logarithm there, and all else in the row multiplied by the same factor, multiplies the
    row and the column of the covariance. None if the covariance is not such.
    """
    variable = only_variable(covariance, model, shapes)
    of = None if variable is None else compile_given(covariance, variable, model)
    if variable is None or of is None:
        return None
    n = int(covariance.type.shape[-1] or 0)
    if shapes[variable] != (n * (n + 1) // 2,):
        return None
    rows = np.split(np.arange(n * (n + 1) // 2), np.cumsum(np.arange(1, n)))
    value = np.random.default_rng(0).standard_normal(shapes[variable])
    before = of(value).reshape(-1, n, n)
    for k, row in enumerate(rows):
        moved, factor = value.copy(), np.ones(n)
        moved[row[:-1]] *= np.exp(CHANGE)
        moved[row[-1]] += CHANGE
        factor[k] = np.exp(CHANGE)
        expected = before * np.outer(factor, factor)
        if not np.allclose(of(moved).reshape(-1, n, n), expected, ROUNDING, ROUNDING):
            return None
    return variable, rows
