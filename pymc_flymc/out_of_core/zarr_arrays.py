"""Arrays of Zarr, which need not be installed: their files, and whether they are whole."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

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
