"""Graphs that are evaluated for all rows, but return only some."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import known_size
from pymc_flymc.reading.flat import LONG


class AllOfGraph:
    """Evaluate graphs for all rows and return `rows`, where `RowsOfGraph` cannot be used."""

    def __init__(self, rows: np.ndarray) -> None:
        self.m = len(rows)
        self.inputs: list[Any] = [pt.lvector("rows")]
        self.values: list[Any] = [rows]

    def __call__(self, graph: TensorVariable) -> TensorVariable:
        """Return the graph of these rows of a vector or table, with its data as arguments."""
        data = [v for v in graph_inputs([graph]) if isinstance(v, Constant) and _is_long(v)]
        replaced: dict[Any, Any] = {v: v.type() for v in dict.fromkeys(data)}
        self.inputs += replaced.values()
        self.values += [v.data for v in replaced]
        whole: Any = graph_replace([graph], replaced, strict=False)[0] if replaced else graph
        whole = whole.flatten() if whole.ndim > 1 else whole
        return whole if whole.type.broadcastable[0] else whole[self.inputs[0]]


def _is_long(v: Any) -> bool:
    return isinstance(v.type, SparseTensorType) or known_size(v) >= LONG
