"""The structure of graphs, and the content of the arrays that they hold."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from scipy.sparse import issparse

#: Arrays of up to this many bytes are hashed as they are, of larger ones a checksum is.
HASHED = 1 << 24
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
    # Larger content is summed up first, at nearly the speed of memory: a change of one number of 32
    # bits is always detected, any other except with a probability of about 2^-32.
    found = blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
    if sampled and isinstance(owner_of(array), np.memmap):
        step = max(1, len(array) // SAMPLE) if array.ndim else 1
        found.update(np.ascontiguousarray(array[::step] if array.ndim else array))
    elif array.nbytes <= HASHED:
        found.update(np.ascontiguousarray(array))
    else:
        # In the order of memory, only an array with gaps is copied, a piece at a time.
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        rows = array.T if by_columns else array
        step = len(rows) if rows.flags.c_contiguous else max(1, CHUNK // (rows.nbytes // len(rows)))
        total = 0
        for start in range(0, len(rows), step):
            piece = np.ascontiguousarray(rows[start : start + step])
            total = crc32(piece.reshape(-1).view(np.uint8), total)
        found.update(f"{'by columns' if by_columns else 'by rows'} {total}".encode())
    return found.digest()


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
