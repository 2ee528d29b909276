"""Locks that let only one run at a time use a folder."""

import os
import sys
from pathlib import Path

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
