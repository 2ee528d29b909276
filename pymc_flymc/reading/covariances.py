"""Scales of effects whose covariance has a Cholesky factor that is sampled."""

from __future__ import annotations

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable

from pymc_flymc.graphs.tools import Shapes
from pymc_flymc.reading.functions_of_variables import compile_given, step_variables

#: Change of a scale's logarithm that is tried.
CHANGE = 0.3


def rows_of_factor(
    covariance: Variable, model: Model, shapes: Shapes
) -> tuple[Variable, list[np.ndarray]] | None:
    """Return the variable that holds a Cholesky factor, and the places of the factor's rows in it.

    The factor is packed row by row, and each row ends with the logarithm of its diagonal element.
    Multiplying a row of the factor by a number multiplies the same row and column of the
    covariance. None if the covariance does not behave like that.
    """
    variables = step_variables(covariance, model, shapes)
    of = compile_given(covariance, variables, model) if len(variables) == 1 else None
    if of is None:
        return None
    (variable,) = variables
    n = int(covariance.type.shape[-1] or 0)
    if shapes[variable] != (n * (n + 1) // 2,):
        return None
    rows = np.split(np.arange(n * (n + 1) // 2), np.cumsum(np.arange(1, n)))
    value = np.random.default_rng(0).standard_normal(shapes[variable])
    before = of([value]).reshape(-1, n, n)
    rounding = np.sqrt(np.finfo(before.dtype).eps)
    for k, row in enumerate(rows):
        moved, factor = value.copy(), np.ones(n)
        moved[row[:-1]] *= np.exp(CHANGE)
        moved[row[-1]] += CHANGE
        factor[k] = np.exp(CHANGE)
        expected = before * np.outer(factor, factor)
        if not np.allclose(of([moved]).reshape(-1, n, n), expected, rounding, rounding):
            return None
    return variable, rows
