"""Files that hold what was written last or before, draws as bytes, and a lock."""

import os
import pickle
import struct
import sys
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

_SIZE = 16


def write_object(path: Path, content: Any) -> None:
    """Write an object to a file: a kill, or a power cut if ``fsync`` works, leaves the old one."""
    pickled = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(blake2b(pickled, digest_size=_SIZE).digest())
        file.write(pickled)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    if os.name == "posix":  # the name is part of the folder, which is another file
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_object(path: Path) -> Any:
    """Return the object in a file; None if there is no file, or a damaged one."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    digest, pickled = content[:_SIZE], content[_SIZE:]
    # This comes before unpickling: a truncated file could be taken for another object.
    if blake2b(pickled, digest_size=_SIZE).digest() != digest:
        return None
    return pickle.loads(pickled)


#: Locks of this process, and of its ancestors by fork: they end with the last of these processes.
_held: dict[Path, int] = {}


def hold(folder: Path) -> None:
    """Lock a folder against other runs until this process and its chains' processes end."""
    if _holds(folder):
        return
    lock = _opened(folder)
    try:
        _lock(lock, alone=True)
    except BlockingIOError as error:
        owner = os.read(lock, 20).decode()
        os.close(lock)
        raise BlockingIOError(error.errno, owner) from None
    os.ftruncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    # The lock is shared with chains' processes: one that outlives this process keeps others out.
    _lock(lock, alone=False)
    _held[folder] = lock


def hold_too(folder: Path) -> None:
    """Lock a folder against other runs together with this process's parent, which holds it."""
    if not _holds(folder):
        lock = _opened(folder)
        _lock(lock, alone=False)
        _held[folder] = lock


def _holds(folder: Path) -> bool:
    lock = _held.get(folder)
    if lock is None:
        return False
    try:  # the folder of that name may be another one by now
        return os.path.samestat(os.fstat(lock), os.stat(_file(folder)))
    except FileNotFoundError:
        return False


def _file(folder: Path) -> Path:
    return folder / "lock"


def _opened(folder: Path) -> int:
    return os.open(_file(folder), os.O_RDWR | os.O_CREAT, 0o666)


def _lock(lock: int, alone: bool) -> None:
    if sys.platform != "win32":  # Windows has no such lock
        import fcntl

        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)


#: Codes of `struct` for integers, floating-point numbers and truth values, by NumPy's kinds.
_KINDS = {"i": "q", "f": "d", "b": "?"}


class RecordFormat:
    """The form in which a draw is recorded: checksum of its origin, statistics, parameters.

    `statistics` are NumPy types by names; objects are not recorded. The attribute `values` is a
    function that returns the recorded values of a mapping of statistics in their order, and `size`
    the number of bytes of a record.
    """

    def __init__(self, n_parameters: int, statistics: Mapping[str, Any]) -> None:
        kinds = {name: np.dtype(dtype).kind for name, dtype in statistics.items()}
        self._names = [name for name, kind in kinds.items() if kind in _KINDS]
        self.values = itemgetter(*self._names)
        self._numbers = struct.Struct("<I" + "".join(_KINDS[kinds[n]] for n in self._names))
        self.size = self._numbers.size + 8 * n_parameters

    def pack(self, origin: int, theta: bytes, values: Iterable[Any]) -> bytes:
        """Return the bytes of a draw: a checksum of its origin, float64 theta, and `values`."""
        return self._numbers.pack(origin, *values) + theta

    def unpack(self, record: bytes) -> tuple[int, np.ndarray, dict[str, Any]]:
        """Return the arguments of `pack`, with theta as numbers."""
        origin, *numbers = self._numbers.unpack_from(record)
        theta = np.frombuffer(record, np.float64, offset=self._numbers.size)
        return origin, theta, dict(zip(self._names, numbers, strict=True))
