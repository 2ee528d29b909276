"""Columns that are memory maps of files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pymc_flymc.compat.numpy import drop_pages
from pymc_flymc.graphs.content_hash import content_hash
from pymc_flymc.out_of_core.identity import state_of_file

__all__ = ["FileColumn"]


class FileColumn:
    """A memory map of a file, of which no page stays in the process.

    Ranges of rows are read from the file itself, at several times the speed at which pages of a map
    come in one after the other; rows by number come from the map.

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
        self._state = state_of_file(self._path)
        # Of a view it is that of the whole map.
        self._offset = int(array.offset) + array.ctypes.data - whole.ctypes.data

    @staticmethod
    def can_be(array: Any) -> bool:
        """Return whether an array is a map of a file, and what the file holds."""
        # A copy-on-write map ("c") may differ from its file.
        good = isinstance(array, np.memmap) and array.filename is not None and array.mode != "c"
        return good and bool(array.flags.c_contiguous) and array.dtype.isnative

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return a copy of some rows."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.shape[0])
            if step == 1:
                return self._read_file(start, max(start, stop))
        found = np.array(self._array[rows])
        drop_pages(self._array)
        return found

    def identity(self) -> bytes:
        """Return what changes with the rows: size, time of change and a sample of rows.

        Raises
        ------
        ValueError
            If there is another file in the place of that which was opened, or none.
        """
        try:
            replaced = os.stat(self._path).st_ino != self._number
        except FileNotFoundError:
            replaced = True
        if replaced:
            raise ValueError(
                f"{self._path} is no longer the file that was opened: open it again, and make a "
                "new step"
            )
        self._state = state_of_file(self._path)
        if self._state[0] < self._offset + self._array.nbytes:
            raise ValueError(f"{self._path} is shorter than the map of it")
        return content_hash(self._array) + repr(self._state).encode()

    def check_unchanged(self) -> None:
        """Refuse a file that has been written to since `identity` was asked for.

        Raises
        ------
        ValueError
        """
        if state_of_file(self._path) != self._state:
            raise ValueError(
                f"{self._path} has been written to while it was sampled from: the draws since are "
                "those of no posterior. Sample again"
            )

    def _read_file(self, start: int, stop: int) -> np.ndarray:
        out = np.empty((stop - start, *self.shape[1:]), self.dtype)
        each = out.itemsize * int(np.prod(self.shape[1:]))
        view, done = memoryview(out.reshape(-1).view(np.uint8)), 0
        with open(self._path, "rb", buffering=0) as file:
            file.seek(self._offset + start * each)
            while done < len(view):
                n_read = file.readinto(view[done:])
                if not n_read:
                    raise ValueError(f"{self._path} is shorter than the map of it")
                done += n_read
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the file's name, and its state."""
        return _reopened, (self._path, self.dtype, self._offset, self.shape, self._state)


def _reopened(
    path: str, dtype: np.dtype, offset: int, shape: tuple[int, ...], state: tuple[int, int]
) -> FileColumn:
    column = FileColumn(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))
    column._state = state
    return column
