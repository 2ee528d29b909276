"""The draws of one chain on disk, and the state from which it continues."""

import itertools
import os
import time
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pymc_flymc.checkpoint.files import RecordFormat, read_object, write_object
from pymc_flymc.checkpoint.run_identity import check_same
from pymc_flymc.errors import warn
from pymc_flymc.reporting import log

#: Least seconds between two saves, and least ratio of that time to the time that a save takes.
INTERVAL, RATIO = 1.0, 100.0
#: Number of bytes that are checked at a time.
BLOCK = 1 << 20
#: Why PyMC's steps may make other draws with the same seed: what PyTensor compiles rounds
#: differently in the process that compiles it than in processes that load it from its cache.
EMPTY_CACHE = (
    "If nothing was in PyTensor's cache when the run began, take an empty one to go on: "
    "PYTENSOR_FLAGS=base_compiledir=NEW_FOLDER. "
)


@dataclass(frozen=True)
class SavedChain:
    """A chain after some of its draws."""

    chain: dict[str, str]  #: What the chain was begun with, and depends on.
    n_draws: int  #: Number of draws made, tuning included.
    checksum: int  #: Checksum of the records of these draws.
    state: Any  #: The `StepMethodState`, on which the next draw depends.


class Journal:
    """Records the draws of a chain, and replays those that were recorded before.

    Draws are kept in memory until the chain is saved. A saved chain is one file of draws, which
    grows, and one with the state after the last of them, which is replaced once the draws are on
    disk. Draws after that state are made again, and come out the same.

    `path` is the path of both files without suffixes, and `chain` what the chain depends on: a
    record of another chain is refused. `n_draws` includes tuning; the chain is saved with its last
    draw. After the replay the chain continues from `state`, or begins if it is None.
    """

    def __init__(self, path: Path, chain: dict[str, str], n_draws: int, form: RecordFormat) -> None:
        self._draws, self._saved = path.with_suffix(".draws"), path.with_suffix(".state")
        self._chain, self._last, self._form = chain, n_draws, form
        #: Packed when the chain is saved, all at once: one by one takes three times as long.
        self._pending: list[tuple[int, bytes, tuple[Any, ...]]] = []
        self._has_warned = False
        self.state: Any = None
        self._on_disk = self._checksum = 0
        saved = read_object(self._saved)
        if saved is not None:
            self._resume(saved)
        self._n_recorded, self._n = self._on_disk, 0
        self._records = _blocks(self._draws, self._form.size)
        self._due = time.monotonic() + INTERVAL

    def _resume(self, saved: SavedChain) -> None:
        """Continue from what was saved, if the chain is the same and its draws are on disk."""
        check_same(self._saved.parent, saved.chain, self._chain)
        if self._checksum_of(saved.n_draws) != saved.checksum:
            log.warning(f"{self._draws} is damaged: the chain makes its draws again")
            return
        self.state, self._on_disk, self._checksum = saved.state, saved.n_draws, saved.checksum

    def _checksum_of(self, n_draws: int) -> int:
        """Return the checksum of the first n draws, or of fewer if the file has fewer."""
        checksum, left = 0, n_draws * self._form.size
        try:
            for block in _blocks(self._draws, BLOCK):
                checksum = zlib.crc32(block[:left], checksum)
                left -= len(block[:left])
        except FileNotFoundError:
            pass
        return checksum if left == 0 else -1

    def replay(
        self, theta: np.ndarray, others: np.ndarray
    ) -> tuple[np.ndarray, dict[str, Any]] | None:
        """Return the next recorded draw, from this point, and its statistics; None at the end."""
        if self._n >= self._n_recorded:
            return None
        origin, drawn, statistics = self._form.unpack(next(self._records))
        if origin != self._origin(theta, others):
            what = "draws of the other step methods" if self._n else "initvals of pm.sample"
            raise ValueError(
                f"the {what} are not those with which {self._draws} was recorded. "
                f"{EMPTY_CACHE if self._n else ''}Give another folder as checkpoint=, or delete "
                "this one to start again"
            )
        self._n += 1
        if self._n == self._n_recorded:
            self._records.close()
        return drawn, statistics

    def record(
        self, theta: np.ndarray, others: np.ndarray, drawn: np.ndarray, statistics: dict[str, Any]
    ) -> bool:
        """Record a draw that was made from a point; return whether it is time to save the chain."""
        values = self._form.values(statistics)
        self._pending.append((self._origin(theta, others), drawn.tobytes(), values))
        self._n += 1
        return self._n == self._last or time.monotonic() >= self._due

    def _origin(self, theta: np.ndarray, others: np.ndarray) -> int:
        """Return a checksum of a draw's origin, as far as the previous draw does not give it."""
        return zlib.crc32(others) if self._n else zlib.crc32(others, zlib.crc32(theta))

    def save(self, state: Any) -> None:
        """Save the chain after the last recorded draw; if this fails, the last save stays valid."""
        began = time.monotonic()
        try:
            records = b"".join(itertools.starmap(self._form.pack, self._pending))
            self._write(records)
            checksum = zlib.crc32(records, self._checksum)
            # The draws are on disk first: this file declares that they are.
            write_object(self._saved, SavedChain(self._chain, self._n, checksum, state))
        except OSError as error:
            if not self._has_warned:
                warn(
                    f"checkpoint: {self._draws.parent} cannot be written to ({error}). Sampling "
                    f"goes on. Until there is room, a run that is killed goes on from draw "
                    f"{self._on_disk:,} of the chain {self._draws.stem!r}"
                )
                self._has_warned = True
        else:
            self._on_disk, self._checksum = self._n, checksum
            self._pending.clear()
        ended = time.monotonic()
        self._due = ended + max(INTERVAL, RATIO * (ended - began))

    def _write(self, records: bytes) -> None:
        """Write draws after the saved ones, over any unsaved ones."""
        handle = os.open(self._draws, os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(handle, "r+b") as file:
            file.seek(self._on_disk * self._form.size)
            file.write(records)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())


def _blocks(path: Path, size: int) -> Generator[bytes]:
    """Yield a file's bytes in blocks of some size."""
    with path.open("rb") as file:
        while block := file.read(size):
            yield block
