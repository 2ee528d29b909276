"""A folder is one run's at a time."""

import os
import sys
from pathlib import Path

#: Locks of this process, and of those that it was forked from: they end with the last of them.
_held: dict[Path, int] = {}


def hold(folder: Path) -> None:
    """Keep other runs out of a folder until this process ends, and its chains' processes.

    Raises
    ------
    BlockingIOError
        If a process of another run holds it. It has the number of the process that began that run.
    """
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
    # Chains' processes hold it with this one: one that outlives it keeps others out.
    _lock(lock, alone=False)
    _held[folder] = lock


def hold_too(folder: Path) -> None:
    """Keep other runs out of a folder that this process's parent holds."""
    if not _holds(folder):
        lock = _opened(folder)
        _lock(lock, alone=False)
        _held[folder] = lock


def _holds(folder: Path) -> bool:
    lock = _held.get(folder)
    if lock is None:
        return False
    try:  # a folder of that name that is still the same
        return os.path.samestat(os.fstat(lock), os.stat(_file(folder)))
    except FileNotFoundError:
        return False


def _file(folder: Path) -> Path:
    return folder / "lock"


def _opened(folder: Path) -> int:
    return os.open(_file(folder), os.O_RDWR | os.O_CREAT, 0o666)


def _lock(lock: int, alone: bool) -> None:
    if sys.platform != "win32":  # there, nobody is kept out
        import fcntl

        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
