"""Arrays of Dask, which need not be installed."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pymc_flymc.graphs.content_hash import content_hash
from pymc_flymc.out_of_core.row_checks import check_rows

#: Depth to which objects of a Dask graph are searched for files in arguments of tasks.
DEEPEST = 12


def is_dask(values: Any) -> bool:
    """Return whether this is an array of Dask."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "chunks")


def with_checked_blocks(name: str, array: Any) -> Any:
    """Return an array whose blocks hold whole rows, and are checked against its declaration.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    array : dask.array.Array
        Chunks of unknown lengths are counted first.
    """
    if any(np.isnan(n) for n in array.shape):
        array = array.compute_chunk_sizes()
    meta = np.empty((0,) * array.ndim, array.dtype)
    checked = array.map_blocks(_checked, container=name, dtype=array.dtype, meta=meta)
    return checked.rechunk({axis: -1 for axis in range(1, array.ndim)})


def _checked(block: Any, container: str, block_info: Any = None) -> Any:
    at = block_info[0]["array-location"]
    shape = tuple(stop - start for start, stop in at)
    return check_rows(block, container, shape, f"the block of rows {at[0][0]:,} to {at[0][1]:,}")


def check_repeatable(name: str, array: Any) -> None:
    """Refuse an array whose first rows change when they are computed again.

    Parameters
    ----------
    name : str
        Of the container, for messages.
    array : dask.array.Array
    """
    first = next(i for i, n in enumerate(array.chunks[0]) if n)
    block = array.blocks[first]
    once, again = (content_hash(np.asarray(block.compute(scheduler="threads"))) for _ in range(2))
    if once != again:
        first_rows = f"the first {array.chunks[0][first]:,} rows"
        raise ValueError(f"data= of {name!r}: {changes_again(first_rows)}")


def changes_again(rows: str) -> str:
    """Return the message for rows that change when they are computed again."""
    return (
        f"{rows} had other values when they were computed again, and rows are read several times. "
        "Whatever draws random numbers in their computation needs a seed for each block; or write "
        "them to files, or persist() them"
    )


def leaves(array: Any) -> list[Any]:
    """Return paths of files, arrays in memory and Zarr arrays that an array is made of.

    If a version of Dask has tasks of another form, some may not be found. Then changes of these go
    unnoticed.
    """
    if not is_dask(array):
        return [array]
    found: dict[Any, Any] = {}
    seen: set[int] = set()

    def visit(value: Any, depth: int) -> None:
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if isinstance(value, str):
            path = value.removeprefix("file://")
            if (os.sep in path or "." in path) and path not in found and os.path.isfile(path):
                found[path] = os.path.abspath(path)
            return
        if depth > DEEPEST or id(value) in seen or isinstance(value, type | int | float | bytes):
            return
        seen.add(id(value))
        if isinstance(value, np.ndarray) or hasattr(value, "nchunks_initialized"):
            found[id(value)] = value
        else:
            for part in _parts(value):
                visit(part, depth + 1)

    for task in dict(array.__dask_graph__()).values():
        visit(task, 0)
    return list(found.values())


def _parts(value: Any) -> Iterable[Any]:
    """Return what an object of a Dask graph is made of: a collection, a task, a piece of a file."""
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, tuple | list | set | frozenset):
        return list(value)
    names = ("args", "kwargs", "keywords", "value", "path", "fragment")
    return [getattr(value, name, None) for name in names]
