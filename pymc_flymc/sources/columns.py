"""Columns of numbers in memory or on disk, read by ranges of rows and by sorted row numbers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pymc_flymc.sources.files import FileColumn

__all__ = ["ArrayColumn", "Column", "as_column", "is_dask"]


class Column(Protocol):
    """What a container holds for all rows: one number a row, or several.

    Attributes
    ----------
    shape : tuple of int
        Its first element is the number of rows, N.
    dtype : dtype
    chunk : int
        Rows that are stored together, one where any row can be read alone.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102

    @property
    def dtype(self) -> np.dtype: ...  # noqa: D102

    @property
    def chunk(self) -> int: ...  # noqa: D102

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows: a range with a step, or sorted row numbers, each chunk read once."""


class ArrayColumn:
    """An array that reads rows when it is indexed: of NumPy, Zarr or Dask.

    Parameters
    ----------
    array : array
        With a shape and a dtype.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(int(n) for n in array.shape)
        self.dtype = np.dtype(array.dtype)
        chunks = getattr(array, "chunks", None)
        first = chunks[0] if chunks else 1
        # Zarr says one number for all chunks, Dask one for each.
        self.chunk = int(max(first, default=1) if isinstance(first, tuple) else first)

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows, of an array in memory a view."""
        if isinstance(self.array, np.ndarray):
            return self.array[rows]
        if is_dask(self.array):
            return np.asarray(self.array[rows].compute(scheduler="threads"))
        by_number = isinstance(rows, np.ndarray)
        return np.asarray(
            getattr(self.array, "oindex", self.array)[rows] if by_number else self.array[rows]
        )


def as_column(values: Any) -> Column | None:
    """Return what a user gives for a container as a column, None if it is nothing of the kind."""
    if isinstance(values, ArrayColumn | FileColumn):
        return values
    if hasattr(values, "to_dask_array"):  # a data frame of Dask or one of its columns
        values = values.to_dask_array(lengths=True)
    elif hasattr(values, "to_numpy"):  # of pandas
        values = values.to_numpy()
    elif isinstance(values, list | tuple):
        values = np.asarray(values)
    if not (hasattr(values, "shape") and hasattr(values, "dtype") and len(values.shape)):
        return None
    if is_dask(values):
        values = _with_known_rows(values)
    return FileColumn(values) if FileColumn.can_be(values) else ArrayColumn(values)


def is_dask(values: Any) -> bool:
    """Return whether this is an array of Dask, which need not be installed."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "chunks")


def _with_known_rows(values: Any) -> Any:
    """Return a Dask array whose chunks are of known lengths, and hold whole rows."""
    if any(np.isnan(n) for n in values.shape):
        values = values.compute_chunk_sizes()
    return values.rechunk({axis: -1 for axis in range(1, values.ndim)})
