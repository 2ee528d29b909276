"""Graphs of a few values of a table."""

from __future__ import annotations

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.gathering import RowsOfGraph

__all__ = ["CellsOfGraph"]


class CellsOfGraph(RowsOfGraph):
    """Take values of tables: the rows of their first axis that these are in, and those of them.

    Parameters
    ----------
    cells : ndarray of int, shape (m,)
        Numbers of the values, in C order.
    shape : tuple of int
        Of the table.
    """

    def __init__(self, cells: np.ndarray, shape: tuple[int, ...]) -> None:
        first, *self._others = np.unravel_index(cells, shape)
        super().__init__(first)

    def __call__(self, graph: TensorVariable) -> TensorVariable:
        """Return the graph of these values, a vector."""
        first = np.zeros(self.m, int) if graph.type.broadcastable[0] else np.arange(self.m)
        return super().__call__(graph)[(first, *self._others)]
