"""Arrays on disk and on clusters: Dask, Zarr, files, and whether they are still the same."""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from pymc_flymc.graphs.content_hash import (
    content_hash,
    file_of_map,
    owner_of,
    state_of_file,
    state_of_map,
)
from pymc_flymc.reporting import number_of


def check_rows(rows: Any, container: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return rows as they are, if they have the requested shape and are numbers.

    Parameters
    ----------
    rows : array
    container : str
        Its name.
    shape : tuple of int
        The requested shape.
    what : str
        Where the rows come from, for messages.
    """
    if np.ma.is_masked(rows):
        n_masked = int(np.ma.getmaskarray(rows).sum())
        raise ValueError(
            f"data= of {container!r}: {what} has {number_of(n_masked, 'masked value')}; drop or "
            "impute these rows"
        )
    rows = np.asarray(np.ma.getdata(rows))
    if rows.shape != shape:
        raise ValueError(
            f"data= of {container!r}: {what} was declared to have the shape {shape}, and has "
            f"{rows.shape}: rows of different containers would be put together. What it is read "
            "from has changed, or its lengths were declared wrongly: open it again, and make a new "
            "step"
        )
    if rows.dtype.kind not in "fiub":
        raise ValueError(f"data= of {container!r}: {what} is of dtype {rows.dtype}, not numbers")
    return rows


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


#: Offset and length, in the index of a shard, of a chunk that is not there: Zarr's specification.
NOT_THERE = 2**64 - 1


def is_zarr(values: Any) -> bool:
    """Return whether this is an array of Zarr."""
    return hasattr(values, "nchunks_initialized") and hasattr(values, "store")


def is_in_memory(array: Any) -> bool:
    """Return whether the store of an array is memory of this process."""
    from zarr.storage import MemoryStore

    return isinstance(array.store, MemoryStore)


def check_shape(array: Any) -> None:
    """Refuse an array whose store holds one of another shape than when it was opened."""
    import zarr

    try:
        now = zarr.open_array(store=array.store, path=array.path, mode="r")
    except FileNotFoundError:
        raise ValueError(f"there is no Zarr array at {array.store_path} any more") from None
    opened, found = ((each.shape, each.chunks, str(each.dtype)) for each in (array, now))
    if opened != found:
        raise ValueError(
            f"the Zarr array at {array.store_path} has been resized or written again: it was of "
            f"the shape {array.shape} when it was opened, and is of {now.shape}, in chunks of "
            f"{now.chunks} of {now.dtype}: open it again, and make a new step"
        )


def n_missing_chunks(array: Any) -> int:
    """Count the chunks that a store does not hold, which would be read as the fill value.

    Missing chunks cannot be counted within shards that are not local files.
    """
    per_shard, folder = _index_shape(array), _folder(array)
    if per_shard is None or folder is None:
        return max(0, int(array.nchunks - array.nchunks_initialized))
    shards = [math.ceil(n / size) for n, size in zip(array.shape, array.shards, strict=True)]
    chunks = [math.ceil(n / size) for n, size in zip(array.shape, array.chunks, strict=True)]
    missing = 0
    for shard in np.ndindex(*shards):
        # The last shard may be partly outside the array; its chunks there need not exist.
        of_array = tuple(
            slice(0, n - i * per) for n, i, per in zip(chunks, shard, per_shard, strict=True)
        )
        path = folder / array.metadata.encode_chunk_key(shard)
        missing += int(np.count_nonzero(~_chunks_in(array, path, per_shard)[of_array]))
    return missing


def _index_shape(array: Any) -> tuple[int, ...] | None:
    """Return the numbers of chunks in a shard, None without shards whose index can be read."""
    if getattr(array, "shards", None) is None:
        return None
    index = [codec["name"] for codec in _sharding(array)["index_codecs"]]
    endian = _sharding(array)["index_codecs"][0].get("configuration", {}).get("endian")
    if index not in (["bytes"], ["bytes", "crc32c"]) or endian != "little":
        return None
    return tuple(s // c for s, c in zip(array.shards, array.chunks, strict=True))


def _sharding(array: Any) -> Any:
    return array.metadata.to_dict()["codecs"][0]["configuration"]


def _chunks_in(array: Any, path: Path, per_shard: tuple[int, ...]) -> np.ndarray:
    """Return which chunks a shard's file has, by its index: none if there is no such file."""
    n = 2 * math.prod(per_shard)
    checksum = 4 * (len(_sharding(array)["index_codecs"]) - 1)
    start = 0
    if _sharding(array)["index_location"] == "end" and path.is_file():
        start = max(0, path.stat().st_size - 8 * n - checksum)
    index = np.fromfile(path, "<u8", n, offset=start) if path.is_file() else np.empty(0, "<u8")
    if len(index) < n:
        return np.zeros(per_shard, bool)
    return np.any(index.reshape(*per_shard, 2) != NOT_THERE, axis=-1)


def files_of(array: Any) -> Iterator[tuple[Path, str]]:
    """Yield the files of an array in a folder, with the folder, in their order."""
    if top := _folder(array):
        for folder, folders, files in os.walk(top):
            folders.sort()
            yield from ((top, os.path.join(folder, file)) for file in sorted(files))


def _folder(array: Any) -> Path | None:
    """Return the folder of an array, None if it is in none."""
    root = str(getattr(array.store, "root", getattr(array.store, "path", "")))
    return Path(root, array.path) if os.path.isdir(root) else None


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
