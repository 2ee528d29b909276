"""Peak memory of a process and its descendants (Linux only)."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


class PeakMemory:
    """Samples, in a thread, the proportional set sizes of a process and of all its descendants.

    A page that several processes share counts once in their sum. What lives for a shorter time
    than `interval` may be missed.
    """

    def __init__(self, pid: int, interval: float = 0.05) -> None:
        self.pid = pid
        self.interval = interval
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.peak_bytes = max(self.peak_bytes, tree_bytes(self.pid))
            time.sleep(self.interval)


def tree_bytes(pid: int) -> int:
    """Sum of the proportional set sizes of a process and its descendants."""
    total = 0
    try:
        smaps = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += 1024 * sum(int(kb) for kb in _PSS.findall(smaps))
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = (task / "children").read_text().split()
            total += sum(tree_bytes(int(child)) for child in children)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it has ended meanwhile, or this is not Linux
    return total
