"""Columns of numbers in memory or on disk, read by ranges of rows and by sorted row numbers."""

import math
import os
from abc import ABC, abstractmethod
from typing import Any, override

import numpy as np
from scipy.sparse import issparse

from pymc_flymc.compat.numpy import drop_pages
from pymc_flymc.graphs.content_hash import content_hash, state_of_file, state_of_map
from pymc_flymc.out_of_core.arrays import (
    changes_again,
    check_chunks,
    check_file,
    check_rows,
    identity_of,
    is_dask,
    leaves,
    paths_of,
    store_of,
    with_checked_blocks,
)
from pymc_flymc.out_of_core.frames import Labels, array_of_frame, is_frame


class Column(ABC):
    """The rows of a container: one number per row, or several.

    Attributes
    ----------
    shape : tuple of int
        Its first element is the number of rows, N.
    dtype : dtype
    chunk : int
        Number of rows that are stored together; one if each row can be read alone.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    chunk: int

    @abstractmethod
    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows: a range with a step, or sorted row numbers, each chunk read once."""

    @abstractmethod
    def identity(self) -> bytes:
        """Return a value that changes with the rows; see `identity_of`."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the rows are: a file, a store, memory."""

    def check_unchanged(self) -> None:
        """Refuse rows that have changed since `identity` was called, if that is cheap to check."""


class ArrayColumn(Column):
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
        self._files: dict[str, tuple[int, int]] = {}
        #: Hashes of ranges of rows that Dask has computed.
        self._computed: dict[tuple[int, int, int], bytes] = {}
        # Zarr has one length for all chunks, Dask one for each.
        self.chunk = int(max(first, default=1) if isinstance(first, tuple) else first)

    @override
    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(self.array, np.ndarray):
            return self.array[rows]
        if is_dask(self.array):
            found = np.asarray(self.array[rows].compute(scheduler="threads"))
            if isinstance(rows, slice):  # of passes over all rows, which are always the same ranges
                self._check_repeated(rows.indices(self.shape[0]), found)
            return found
        by_number = isinstance(rows, np.ndarray)
        return np.asarray(
            getattr(self.array, "oindex", self.array)[rows] if by_number else self.array[rows]
        )

    def _check_repeated(self, rows: tuple[int, int, int], found: np.ndarray) -> None:
        now = content_hash(found)
        if self._computed.setdefault(rows, now) != now:
            raise ValueError(changes_again(f"rows {rows[0]:,} to {rows[1] - 1:,}"))

    @override
    def identity(self) -> bytes:
        self._computed.clear()
        found = identity_of(self.array)  # first: it flushes memory maps to disk
        self._files = {path: state_of_file(path) for path in paths_of(self.array)}
        return found

    @property
    @override
    def place(self) -> str:
        found = {store_of(leaf) for leaf in leaves(self.array)}
        stores = sorted(found - {"memory"} or found)  # Dask holds lengths and such in memory
        more = f" and {len(stores) - 1:,} more" if len(stores) > 1 else ""
        return f"{stores[0]}{more}" if stores else "computed"

    @override
    def check_unchanged(self) -> None:
        for path, state in self._files.items():
            check_file(path, state)


class FileColumn(Column):
    """A memory map of a file, whose pages do not stay in the process.

    Ranges of rows are read from the file itself, which is several times as fast as loading pages of
    a map one by one. Rows by number are read from the map.

    Parameters
    ----------
    array : memmap
        C-contiguous; a view of a map will do.
    """

    chunk = 1

    def __init__(self, array: np.memmap) -> None:
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype
        whole = array
        while isinstance(whole.base, np.memmap):
            whole = whole.base
        self._path = str(array.filename)
        self._number = os.stat(self._path).st_ino
        self._state = state_of_map(self._path)
        # A view's offset is that of the whole map.
        self._offset = int(array.offset) + array.ctypes.data - whole.ctypes.data

    @staticmethod
    def can_be(array: Any) -> bool:
        """Return whether an array is a map of a file with the same contents as the file."""
        # A copy-on-write map ("c") may differ from its file.
        good = isinstance(array, np.memmap) and array.filename is not None and array.mode != "c"
        return good and bool(array.flags.c_contiguous) and array.dtype.isnative

    @override
    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                return self._read_file(start, max(start, stop))
        found = np.array(self._array[rows])
        drop_pages(self._array)
        return found

    @override
    def identity(self) -> bytes:
        try:
            replaced = os.stat(self._path).st_ino != self._number
        except FileNotFoundError:
            replaced = True
        if replaced:
            raise ValueError(
                f"{self._path} is no longer the file that was opened: open it again, and make a "
                "new step"
            )
        self._state = state_of_map(self._path)
        if self._state[0] < self._offset + self._array.nbytes:
            raise ValueError(f"{self._path} is shorter than the map of it")
        return content_hash(self._array) + repr(self._state).encode()

    @property
    @override
    def place(self) -> str:
        return os.path.abspath(self._path)

    @override
    def check_unchanged(self) -> None:
        check_file(self._path, self._state)

    def _read_file(self, start: int, stop: int) -> np.ndarray:
        row = math.prod(self.shape[1:])
        place, count = self._offset + start * row * self.dtype.itemsize, (stop - start) * row
        found = np.fromfile(self._path, self.dtype, count, offset=place)
        if len(found) < count:
            raise ValueError(f"{self._path} is shorter than the map of it")
        return found.reshape(stop - start, *self.shape[1:])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the file's name, and its state."""
        return _reopened, (self._path, self.dtype, self._offset, self.shape, self._state)


def _reopened(
    path: str, dtype: np.dtype, offset: int, shape: tuple[int, ...], state: tuple[int, int]
) -> FileColumn:
    column = FileColumn(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))
    column._state = state
    return column


def as_column(name: str, values: Any, labels: Labels | None = None) -> Column | None:
    """Return what a user gives for a container as a column; None if it is no array or frame.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    values : array or data frame
    labels : Labels, optional
        See `array_of_frame`.

    Raises
    ------
    ValueError
        If it holds no numbers, or missing ones, or if chunks of it are missing.
    """
    if hasattr(values, "to_numpy") and not is_frame(values):
        of_table = hasattr(values, "to_pandas") and not hasattr(values, "dims")  # Polars or Arrow
        values = values.to_pandas() if of_table else values.to_numpy()
    if is_frame(values):
        values = array_of_frame(name, values, labels or Labels())
    elif isinstance(values, list | tuple):
        values = np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):
        values = check_rows(values, name, values.shape, "the array")
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
