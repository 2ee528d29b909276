"""The arrays that the leaves of graphs hold, and digests of their content."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from scipy.sparse import issparse

__all__ = ["arrays_of", "digest_of", "owner_of"]

#: Arrays of up to so many bytes are hashed as they are, larger ones by sums over blocks.
HASHED = 1 << 24
#: Bytes of a block.
BLOCK = 1 << 13
#: Bytes that are summed at a time.
CHUNK = 1 << 26
#: Rows of a memory-mapped array that are looked at.
SAMPLE = 1000


def arrays_of(leaf: Variable) -> Iterator[np.ndarray]:
    """Yield the arrays that a constant or a shared variable consists of, not copies of them."""
    data: Any = None
    if isinstance(leaf, Constant):
        data = leaf.data
    elif isinstance(leaf, SharedVariable):
        data = leaf.get_value(borrow=True)
    if issparse(data):
        yield from (data.data, data.indices, data.indptr)
    elif isinstance(data, np.ndarray):
        yield data


def digest_of(array: np.ndarray) -> bytes:
    """Hash of an array's shape, type and content."""
    found = blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
    if isinstance(owner_of(array), np.memmap):
        step = max(1, len(array) // SAMPLE) if array.ndim else 1
        found.update(np.ascontiguousarray(array[::step] if array.ndim else array))
    elif array.nbytes <= HASHED:
        found.update(np.ascontiguousarray(array))
    else:
        for words, rest in _pieces(array):
            found.update(np.add.reduce(words.reshape(-1, BLOCK // 8), axis=1))
            found.update(rest)
    return found.digest()


def _pieces(array: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut an array into vectors of whole blocks of uint64, each with the bytes that are left."""
    # In the order of memory, so that only an array with gaps is copied, a piece at a time.
    if array.flags.f_contiguous:
        array = array.T
    step = max(1, CHUNK * len(array) // array.nbytes)
    for start in range(0, len(array), step):
        octets = np.ascontiguousarray(array[start : start + step]).reshape(-1).view(np.uint8)
        whole = len(octets) // BLOCK * BLOCK
        yield octets[:whole].view(np.uint64), octets[whole:]


def owner_of(array: np.ndarray) -> Any:
    """Return the array that owns an array's memory, or that mapped it."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner
