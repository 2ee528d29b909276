"""Detects whether rows are still those that were read.

Files are compared by their sizes and times of change, and memory maps by a sample of rows, too.
Arrays in memory are compared by their content. Arrays of Dask are made of these.
"""

import os
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from pymc_flymc.graphs.content_hash import (
    content_hash,
    file_of_map,
    owner_of,
    state_of_file,
    state_of_map,
)
from pymc_flymc.out_of_core.dask_arrays import leaves
from pymc_flymc.out_of_core.zarr_arrays import (
    check_shape,
    files_of,
    is_in_memory,
    is_zarr,
    n_missing_chunks,
)

#: Number of rows that are read of an array of another kind.
LOOKED_AT = 16


def check_file(path: str, state: tuple[int, int]) -> None:
    """Refuse a file whose state has changed since the run began."""
    if not os.path.exists(path) or state_of_file(path) != state:
        raise ValueError(
            f"{path} has been written to while it was sampled from: the draws since then follow "
            "no posterior. Sample again"
        )


def paths_of(array: Any) -> Iterator[str]:
    """Yield the files that an array of Zarr or Dask is read from, as far as can be told."""
    for leaf in leaves(array):
        if isinstance(leaf, str):
            yield leaf
        elif isinstance(leaf, np.ndarray):
            yield from filter(None, [file_of_map(leaf)])
        else:
            yield from (path for _, path in (files_of(leaf) if is_zarr(leaf) else ()))


def store_of(leaf: Any) -> str:
    """Return where one of the `leaves` of an array is."""
    if isinstance(leaf, str):
        return leaf
    if isinstance(leaf, np.ndarray):
        path = file_of_map(leaf)
        return "memory" if path is None else os.path.abspath(path)
    return str(leaf.store_path) if is_zarr(leaf) else type(leaf).__name__


def identity_of(array: Any) -> bytes:
    """Return a value that changes with the content of an array, as far as can be told.

    A few rows are read of an array that is in no file and not in memory.
    """
    found = blake2b(repr((tuple(array.shape), np.dtype(array.dtype).str)).encode(), digest_size=16)
    for leaf in leaves(array):
        if isinstance(leaf, str):
            found.update(repr(state_of_file(leaf)).encode())
        elif isinstance(leaf, np.ndarray):
            # What is written to a copy-on-write map is in no file.
            found.update(content_hash(leaf, sampled=getattr(owner_of(leaf), "mode", "") != "c"))
            path = file_of_map(leaf)
            found.update(repr(path and state_of_map(path)).encode())
        else:
            found.update(_identity_of_stored(leaf))
    return found.digest()


def _identity_of_stored(array: Any) -> bytes:
    """Return the state of a Zarr array's files, or what rows of another array hold.

    Raises
    ------
    ValueError
        If a Zarr array is not the one that was opened, or is not whole any more.
    """
    files: list[Any] = []
    if is_zarr(array):
        check_shape(array)
        if n_missing_chunks(array):
            raise ValueError(
                f"chunks of the Zarr array at {array.store_path} have been deleted, and would be "
                f"read as {array.fill_value}: open it again, and make a new step"
            )
        files = [(os.path.relpath(path, top), state_of_file(path)) for top, path in files_of(array)]
    if files:
        return repr(files).encode()
    if is_zarr(array) and is_in_memory(array):
        size = array.chunks[0]
        parts = (np.asarray(array[i : i + size]) for i in range(0, array.shape[0], size))
        return b"".join(map(content_hash, parts))
    places = np.linspace(0, array.shape[0] - 1, LOOKED_AT, dtype=np.int64).tolist()  # in a bucket
    return b"".join(content_hash(np.asarray(array[row : row + 1])) for row in places)


def check_chunks(name: str, array: Any) -> None:
    """Refuse a container's Zarr arrays that are not whole, or not as they were opened.

    What is missing would be read as zeros.
    """
    for leaf in filter(is_zarr, leaves(array)):
        check_shape(leaf)
        if missing := n_missing_chunks(leaf):
            raise ValueError(
                f"data= of {name!r}: {missing:,} of the {leaf.nchunks:,} chunks of the Zarr array "
                f"are missing in its store, and would be read as {leaf.fill_value}. Write them; if "
                "they hold nothing else and were left out for that, write the array again with "
                'zarr.create_array(..., config={"write_empty_chunks": True})'
            )
