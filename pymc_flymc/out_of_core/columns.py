"""Columns of numbers in memory or on disk, read by ranges of rows and by sorted row numbers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from pymc_flymc.out_of_core.checks import check_block
from pymc_flymc.out_of_core.dask_arrays import is_dask, with_checked_blocks
from pymc_flymc.out_of_core.files import FileColumn
from pymc_flymc.out_of_core.frames import array_of_frame, is_frame
from pymc_flymc.out_of_core.identity import check_chunks, identity_of

__all__ = ["ArrayColumn", "Column", "as_column"]


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

    def identity(self) -> bytes:
        """Return what changes with the rows; see `identity_of`."""

    def check_unchanged(self) -> None:
        """Refuse rows that have changed since `identity` was asked for, if that costs nothing."""


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

    def identity(self) -> bytes:
        """Return what changes with the rows."""
        return identity_of(self.array)

    def check_unchanged(self) -> None:
        """Nothing that costs nothing tells."""


def as_column(name: str, values: Any) -> Column | None:
    """Return what a user gives for a container as a column, None if it is nothing of the kind.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    values : array or data frame

    Raises
    ------
    ValueError
        If it holds no numbers, or missing ones, or if chunks of it are missing.
    """
    if is_frame(values):
        values = array_of_frame(name, values)
    elif hasattr(values, "to_numpy"):  # of Polars or Arrow
        values = values.to_numpy()
    elif isinstance(values, list | tuple):
        values = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):
        values = check_block(values, name, values.shape, "the array")
    if issparse(values):
        raise ValueError(f"data= of {name!r} is a sparse matrix: make it dense, by .toarray()")
    if not (hasattr(values, "shape") and hasattr(values, "dtype") and len(values.shape)):
        return None
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"data= of {name!r} is of dtype {values.dtype}, not numbers: number the groups from 0, "
            "or make a column of zeros and ones for each category"
        )
    check_chunks(name, values)
    if is_dask(values):
        values = with_checked_blocks(name, values)
    return FileColumn(values) if FileColumn.can_be(values) else ArrayColumn(values)
