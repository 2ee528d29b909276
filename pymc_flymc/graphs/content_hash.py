"""The structure of graphs, and the content of the arrays that they hold."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b, shake_128
from math import gcd
from typing import Any

import numpy as np
from numba import types
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from scipy.sparse import issparse

from pymc_flymc.kernels.native import lazy_kernel, read_only

#: Arrays of up to this many bytes are hashed as they are, larger ones by sums over blocks.
HASHED = 1 << 24
#: Bytes of a block.
BLOCK = 1 << 13
#: Number of bytes of an array with gaps that are copied at a time.
CHUNK = 1 << 26
#: Number of rows of a memory-mapped array that are hashed.
SAMPLE = 1000


def leaves_of(graphs: Sequence[Variable]) -> Iterator[Variable]:
    """Yield the leaves of graphs, and of those that are inside operations such as loops."""
    yield from graph_inputs(graphs)
    for node in toposort(graphs):
        yield from leaves_of(getattr(node.op, "inner_outputs", ()))


def arrays_of(leaf: Variable) -> Iterator[np.ndarray]:
    """Yield the arrays that a constant or a shared variable consists of, without copies."""
    data: Any = None
    if isinstance(leaf, Constant):
        data = leaf.data
    elif isinstance(leaf, SharedVariable):
        data = leaf.get_value(borrow=True)
    if issparse(data):
        yield from (data.data, data.indices, data.indptr)
    elif isinstance(data, np.ndarray):
        yield data


def content_hash(array: np.ndarray, sampled: bool = True) -> bytes:
    """Return a hash of an array's shape, type and content, of a memory map maybe only `sampled`."""
    # Content of more than 16 MB is summed up in blocks first, at the speed of memory, see
    # _block_sums: a change of one value is always detected, any other except with a probability of
    # about 2^-32.
    found = blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
    if sampled and isinstance(owner_of(array), np.memmap):
        step = max(1, len(array) // SAMPLE) if array.ndim else 1
        found.update(np.ascontiguousarray(array[::step] if array.ndim else array))
    elif array.nbytes <= HASHED:
        found.update(np.ascontiguousarray(array))
    else:
        # In the order of memory, only an array with gaps is copied, a piece at a time.
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        found.update(b"by columns" if by_columns else b"by rows")
        for octets in _pieces(array.T if by_columns else array):
            whole = len(octets) // BLOCK * BLOCK
            # (A part of an array need not begin at a word.)
            words = np.require(octets[:whole].view(np.uint64), requirements=["ALIGNED"])
            sums = np.empty((whole // BLOCK, 2), np.uint64)
            _block_sums(read_only(words), KEYS, sums)
            found.update(sums)
            found.update(octets[whole:])
    return found.digest()


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an array's bytes in consecutive pieces of whole blocks, in the order of rows."""
    step = len(array)
    if not array.flags.c_contiguous:
        row = array.nbytes // len(array)
        whole = BLOCK // gcd(BLOCK, row)
        step = max(1, CHUNK // (whole * row)) * whole
    for start in range(0, len(array), step):
        yield np.ascontiguousarray(array[start : start + step]).reshape(-1).view(np.uint8)


#: A random number for each word of a block, the same in each process.
KEYS = read_only(np.frombuffer(shake_128(b"block sums").digest(BLOCK), dtype=np.uint64))


_given = types.Array(types.uint64, 1, "C", readonly=True)


@lazy_kernel(types.void(_given, _given, types.Array(types.uint64, 2, "C")))
def _block_sums(words, keys, sums):  # type: ignore[no-untyped-def]
    """Write two sums modulo 2^64 for each block of words.

    The first sum, of the words, detects each change of a single word, and no exchange of words. The
    second is the sum of products of the halves of words, after a word's key has been added. It is
    equal for two different blocks with a probability of about 2^-32 over the keys, as in the hash
    function NH (Black, Halevi, Krawczyk, Krovetz and Rogaway 1999, UMAC). A sum of words times
    random weights would not do: with odd weights it misses an exchange of two numbers of opposite
    sign, whose difference is 2^63 modulo 2^64, and with an even weight a change of a single sign.
    """
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    for b in range(sums.shape[0]):
        plain = keyed = np.uint64(0)
        first = b * keys.shape[0]
        for i in range(keys.shape[0]):
            word = words[first + i]
            mixed = word + keys[i]
            plain += word
            keyed += (mixed >> half) * (mixed & low)
        sums[b, 0] = plain
        sums[b, 1] = keyed


def owner_of(array: np.ndarray) -> Any:
    """Return the array that owns an array's memory, or that mapped it."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner


def file_of_map(array: np.ndarray) -> str | None:
    """Return the file that an array is a map of, if it is one."""
    path = getattr(owner_of(array), "filename", None)
    return None if path is None else str(path)


def state_of_file(path: str) -> tuple[int, int]:
    """Return a file's size, in bytes, and the time at which it was last changed, in ns."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def state_of_map(path: str) -> tuple[int, int]:
    """Return the size and time of change of a file to which maps may write."""
    # The system records the time when a page is first written to, and not again until the page is
    # on disk. So pages are flushed, and the next change is recorded.
    if os.name == "posix":
        with suppress(OSError), open(path, "rb") as file:
            os.fsync(file.fileno())
    return state_of_file(path)


def structure_of(graphs: Sequence[Variable]) -> str:
    """Return a name of graphs' operations, names, types, and scalar constants, for any process."""
    return blake2b("\n".join(_lines(graphs)).encode(), digest_size=16).hexdigest()


def without_addresses(text: str) -> str:
    """Return Python's text for an object without its address, which differs from run to run."""
    return re.sub("( at )?0x[0-9a-fA-F]+", "", text)


def _lines(graphs: Sequence[Variable]) -> list[str]:
    lines: list[str] = []
    numbers: dict[Variable, int] = {}

    def number(variable: Variable) -> int:
        if variable not in numbers:
            numbers[variable] = len(numbers)
            value = ""
            if isinstance(variable, Constant) and not any(a.ndim for a in arrays_of(variable)):
                value = str(variable.data)
            lines.append(without_addresses(f"{variable.name} {variable.type} {value}"))
        return numbers[variable]

    for node in toposort(graphs):
        lines.append(f"{[number(each) for each in node.inputs]}")
        # The names of some operations that index do not contain the index.
        op = f"{node.op} {getattr(node.op, 'idx_list', '')}"
        lines.append(without_addresses(f"{op} {[number(each) for each in node.outputs]}"))
        inner = getattr(node.op, "inner_outputs", None)
        if inner is not None:
            lines += _lines(inner)
    return [*lines, f"{[number(each) for each in graphs]}"]
