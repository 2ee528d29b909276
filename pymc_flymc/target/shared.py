"""One copy of the data, whatever the number of chains and however their processes start.

Forked chains share memory as it is. Under forkserver and spawn a step is pickled for each chain;
arrays wrapped in `SharedArray` are then pickled as the name of a memory-mapped file.
"""

import contextlib
import errno
import os
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_flymc.graphs.content_hash import owner_of


class SharedArray:
    """A read-only array whose pickle refers to one file on disk: its own, if it is a memory map."""

    # The file is written when the first pickle is made, and removed with the object that made it.
    # An array that is not C-contiguous comes back as a C-contiguous copy.

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._file = _file_behind(array)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle by reference to a file."""
        if self._file is None:
            path = _write(self.array)
            weakref.finalize(self, _remove, path, os.getpid())
            self._file = (path, 0)
        return _attach, (*self._file, self.array.dtype.str, self.array.shape)


def _write(array: np.ndarray) -> str:
    """Write an array to a new temporary file, and return its path; a failure leaves no file."""
    path = None
    try:
        handle, path = tempfile.mkstemp(prefix="pymc-flymc-", suffix=".bin")
        with os.fdopen(handle, "wb") as file:
            # (`tofile` does not report what no longer fits when it closes the file.)
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    except OSError as error:
        if path is not None:
            _remove(path, os.getpid())
        raise OSError(
            error.errno or errno.ENOSPC,
            f"chains in processes of their own share rows as temporary files, and one of "
            f"{array.nbytes:,} bytes could not be written ({error}). Let the environment variable "
            "TMPDIR name a folder with room, or sample with cores=1",
        ) from error
    return path


def _file_behind(array: np.ndarray) -> tuple[str, int] | None:
    """Return the file and the position in it that an array maps, or None if it is in memory."""
    root = owner_of(array)
    # A copy-on-write map ("c") may differ from its file.
    if not isinstance(root, np.memmap) or root.filename is None or root.mode == "c":
        return None
    # The other process reads consecutive numbers, in the order of rows.
    if not array.flags.c_contiguous:
        return None
    return os.fspath(root.filename), int(root.offset) + _address(array) - _address(root)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _attach(path: str, offset: int, dtype: str, shape: tuple[int, ...]) -> SharedArray:
    if int(np.prod(shape)) == 0:
        return SharedArray(np.empty(shape, dtype))
    return SharedArray(np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape))


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the finalizer, but not the file
        with contextlib.suppress(OSError):
            os.remove(path)
