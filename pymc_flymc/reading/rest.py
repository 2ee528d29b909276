"""What the likelihood of an observed variable has beside the rows of its family."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods import RowParameters
from pymc_flymc.reading.predictor import read_predictor

__all__ = ["read_rest"]


def read_rest(
    parameters: RowParameters,
    n_rows: int,
    name: str,
    shapes: Mapping[Variable, tuple[int, ...]],
    weights: np.ndarray | None = None,
) -> TensorVariable:
    """Return the graph of its sum over all rows, a scalar in terms of value variables.

    It is read as a predictor is, so that the sum is one over the columns of a design.

    Parameters
    ----------
    weights : ndarray, shape (N,), optional
        Of the observed values.

    Raises
    ------
    UnsupportedModelError, ValueError
        As `read_predictor`.
    """
    if parameters.rest is None:
        return pt.constant(0.0)
    predictor = read_predictor(parameters.rest, n_rows, name, shapes)
    design = predictor.design
    weights = np.ones(n_rows) if weights is None else weights
    offset = float(weights @ design.offset[:, 0]) if design.offset.size else 0.0
    return pt.sum(design.sum_rows(weights) * predictor.coefficients) + offset
