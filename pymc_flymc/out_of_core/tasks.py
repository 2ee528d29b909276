"""What the workers of a cluster do: load rows, and work on them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import cloudpickle
import numpy as np

from pymc_flymc.out_of_core.checks import check_block
from pymc_flymc.out_of_core.columns import ArrayColumn
from pymc_flymc.out_of_core.source import Partition

__all__ = [
    "Shared",
    "digest_of_rows",
    "first_of",
    "hash_of",
    "load",
    "run_pass",
    "run_round",
    "second_of",
]

#: Objects that a worker keeps unpickled.
KEPT = 8
_loaded: OrderedDict[str, Any] = OrderedDict()
_turn = threading.Lock()


def hash_of(what: bytes) -> str:
    """Return a name of some bytes."""
    return hashlib.blake2b(what, digest_size=16).hexdigest()


class Shared:
    """An object that travels as bytes, and is unpickled once in each process.

    What is compiled for it is compiled once, too.
    """

    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.token = hash_of(blob)

    def value(self) -> Any:
        """Return the object."""
        with _turn:
            if self.token not in _loaded:
                _loaded[self.token] = cloudpickle.loads(self.blob)
                if len(_loaded) > KEPT:
                    _loaded.popitem(last=False)
            _loaded.move_to_end(self.token)
            return _loaded[self.token]


def load(
    number: int, rows: range, shapes: Mapping[str, tuple[int, ...]], *blocks: np.ndarray
) -> Partition:
    """Put blocks of the same rows together."""
    columns, digest = {}, hashlib.blake2b(digest_size=16)
    for (name, row), block in zip(shapes.items(), blocks, strict=True):
        checked = check_block(block, name, (len(rows), *row), f"partition {number}")
        values = np.ascontiguousarray(checked)
        digest.update(repr((values.dtype.str, values.shape)).encode())
        digest.update(values.reshape(-1).view(np.uint8))
        columns[name] = ArrayColumn(values)
    return Partition(number, rows.start, len(rows), columns, digest=digest.digest())


def digest_of_rows(partition: Partition) -> bytes:
    """Return a partition's digest."""
    return partition.digest


def run_pass(partition: Partition, digest: bytes, shared: Shared, by_chunk: bool) -> Any:
    """Do the work of a pass."""
    partition.check_same(digest)
    work, arguments = shared.value()
    chunks = [partition.chunks()] if by_chunk else []
    return work(partition, *arguments, *chunks)


def first_of(pair: tuple[Any, Any]) -> Any:
    """Return what a worker keeps of a result."""
    return pair[0]


def second_of(pair: tuple[Any, Any]) -> Any:
    """Return what a worker says of a result."""
    return pair[1]


def run_round(
    partition: Partition, digest: bytes, state: Any, shared: Shared, *arguments: Any
) -> Any:
    """Do the work of a round."""
    partition.check_same(digest)
    work, first = shared.value()
    return work(partition, state, first, *arguments)
