"""What the workers of a cluster do: load rows, and work on them."""

import functools
import hashlib
import threading
from collections.abc import Mapping
from typing import Any

import cloudpickle
import numpy as np

from pymc_flymc.out_of_core.columns import ArrayColumn
from pymc_flymc.out_of_core.row_checks import check_rows
from pymc_flymc.out_of_core.source import Partition

_turn = threading.Lock()
#: Functions are unpickled once in each process, so that they are compiled only once.
_unpickled = functools.lru_cache(8)(cloudpickle.loads)


def load(
    number: int, rows: range, shapes: Mapping[str, tuple[int, ...]], *blocks: np.ndarray
) -> Partition:
    """Put blocks of the same rows together."""
    columns, hashed = {}, hashlib.blake2b(digest_size=16)
    for (name, row), block in zip(shapes.items(), blocks, strict=True):
        checked = check_rows(block, name, (len(rows), *row), f"partition {number}")
        values = np.ascontiguousarray(checked)
        hashed.update(repr((values.dtype.str, values.shape)).encode())
        hashed.update(values.reshape(-1).view(np.uint8))
        columns[name] = ArrayColumn(values)
    return Partition(number, rows.start, len(rows), columns, content_hash=hashed.digest())


def run(partition: Partition, content_hash: bytes, pickled: bytes, *arguments: Any) -> Any:
    """Call a pickled function on a partition, if the hash of its rows is still the same.

    Raises
    ------
    ValueError
        If they are not.
    """
    if partition.content_hash != content_hash:
        raise ValueError(
            f"the rows of partition {partition.number} were lost and read again, and have changed "
            "meanwhile: sample again, once nobody writes to them"
        )
    with _turn:
        work = _unpickled(pickled)
    return work(partition, *arguments)
