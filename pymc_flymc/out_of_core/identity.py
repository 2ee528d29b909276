"""What tells whether rows are still those that were read.

Of files it is their sizes and times of change, and of maps a sample of rows; of arrays in memory
their content. Arrays of Dask are made of these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from pymc_flymc.graphs.content_hash import content_hash, owner_of
from pymc_flymc.out_of_core.dask_arrays import leaves

__all__ = ["check_chunks", "identity_of", "state_of_file"]

#: Rows of an array of another kind that are read.
LOOKED_AT = 16


def state_of_file(path: str) -> tuple[int, int]:
    """Return a file's size, in bytes, and the time at which it was last changed, in ns."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def identity_of(array: Any) -> bytes:
    """Return what is equal as long as the content of an array is, as far as can be told.

    Of an array that is none of NumPy's, Zarr's or Dask's a few rows are read.
    """
    found = blake2b(repr((tuple(array.shape), np.dtype(array.dtype).str)).encode(), digest_size=16)
    for leaf in leaves(array):
        if isinstance(leaf, str):
            found.update(repr(state_of_file(leaf)).encode())
        elif isinstance(leaf, np.ndarray):
            found.update(content_hash(leaf))
            path = getattr(owner_of(leaf), "filename", None)  # of a map
            found.update(repr(path and state_of_file(str(path))).encode())
        elif _is_zarr(leaf) and leaf.nchunks_initialized < leaf.nchunks:
            raise ValueError(
                f"chunks of the Zarr array at {leaf.store_path} have been deleted, and would be "
                f"read as {leaf.fill_value}: open it again, and make a new step"
            )
        elif files := list(_files(leaf)):
            for top, path in files:
                state = os.path.relpath(path, top), *state_of_file(path)
                found.update(repr(state).encode())
        else:  # in a bucket, say
            for row in np.linspace(0, leaf.shape[0] - 1, LOOKED_AT, dtype=np.int64).tolist():
                found.update(content_hash(np.asarray(leaf[row : row + 1])))
    return found.digest()


def check_chunks(name: str, array: Any) -> None:
    """Refuse a container's Zarr arrays without some of their chunks, which would be zeros.

    Raises
    ------
    ValueError
    """
    for leaf in leaves(array):
        if _is_zarr(leaf) and leaf.nchunks_initialized < leaf.nchunks:
            missing = leaf.nchunks - leaf.nchunks_initialized
            raise ValueError(
                f"data= of {name!r}: {missing:,} of the {leaf.nchunks:,} chunks of the Zarr array "
                f"are missing in its store, and would be read as {leaf.fill_value}. Write them; if "
                "they hold nothing else and were left out for that, write the array again with "
                'zarr.create_array(..., config={"write_empty_chunks": True})'
            )


def _is_zarr(values: Any) -> bool:
    return hasattr(values, "nchunks_initialized") and hasattr(values, "store")


def _files(array: Any) -> Iterator[tuple[str, str]]:
    """Yield the files of a Zarr array in a folder, with the folder, in their order."""
    if not _is_zarr(array):
        return
    root = str(getattr(array.store, "root", getattr(array.store, "path", "")))
    top = os.path.join(root, array.path)
    for folder, folders, files in os.walk(top):
        folders.sort()
        yield from ((top, os.path.join(folder, file)) for file in sorted(files))
