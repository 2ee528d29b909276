"""States of files that arrays are maps of: they change when the files are written to."""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np

from pymc_flymc.graphs.content_hash import owner_of


def file_of_map(array: np.ndarray) -> str | None:
    """Return the file that an array is a map of, if it is one."""
    path = getattr(owner_of(array), "filename", None)
    return None if path is None else str(path)


def state_of_file(path: str) -> tuple[int, int]:
    """Return a file's size, in bytes, and the time at which it was last changed, in ns."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def state_of_map(path: str) -> tuple[int, int]:
    """Return the state of a file, maps of which may be written to, as `state_of_file`.

    The system notes the time when a page is first written to, and no more until the page is on
    disk: it is put there, so that the next change is noticed.
    """
    if os.name == "posix":
        with suppress(OSError), open(path, "rb") as file:
            os.fsync(file.fileno())
    return state_of_file(path)
