"""Products of tall matrices in single precision, without a copy of them in double precision."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import toposort
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.reading.items import kind_of
from pymc_flymc.regression.design import blocks

__all__ = ["multiply_in_blocks"]


@wrap_py([pt.fmatrix, pt.dmatrix], [pt.dmatrix])
def _product(X: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.empty((X.shape[0], b.shape[1]))
    for rows in blocks(X):
        out[rows] = X[rows].astype(np.float64) @ b
    return out


def multiply_in_blocks(variable: TensorVariable) -> TensorVariable:
    """Copy a graph of the same value that multiplies float32 by float64 in blocks of rows.

    NumPy converts the whole matrix first, and takes several times as long.
    """
    products: dict[Any, Any] = {}
    for node in toposort([variable]):
        if kind_of(node) is Dot:
            a, b = (v.type for v in node.inputs)
            if (a.ndim, a.dtype, b.ndim, b.dtype) == (2, "float32", 2, "float64"):
                out = node.outputs[0]
                products[out] = pt.specify_shape(_product(*node.inputs), out.type.shape)
    return cast(TensorVariable, graph_replace([variable], products)[0]) if products else variable
