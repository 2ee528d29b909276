"""The draws of one chain on disk, and the state from which it goes on."""

import itertools
import os
import time
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pymc_flymc.checkpoint.files import read_object, write_object
from pymc_flymc.checkpoint.record_format import RecordFormat
from pymc_flymc.checkpoint.run_identity import check_same
from pymc_flymc.errors import warn
from pymc_flymc.reporting import log

#: Seconds between savings, and how many times as long as one of them takes they are, at least.
INTERVAL, RATIO = 1.0, 100.0
#: Bytes that are checked at a time.
BLOCK = 1 << 20
#: Why PyMC's steps may make other draws with the same seed: what PyTensor compiles rounds
#: differently in the process that compiles it than in those that load it from its cache.
EMPTY_CACHE = (
    "If nothing was in PyTensor's cache when the run began, take an empty one to go on: "
    "PYTENSOR_FLAGS=base_compiledir=NEW_FOLDER. "
)


@dataclass(frozen=True)
class SavedChain:
    """A chain after some of its draws.

    Attributes
    ----------
    chain : dict of str
        What the chain was begun with, and depends on.
    n_draws : int
        Draws made, those of tuning among them.
    checksum : int
        Of their records.
    state : StepMethodState
        PyMC's name for all that the next draw depends on.
    """

    chain: dict[str, str]
    n_draws: int
    checksum: int
    state: Any


class Journal:
    """Records the draws of a chain, and replays those that were recorded before.

    Draws are kept in memory until the chain is saved. A saved chain is one file of draws, which
    grows, and one of the state after the last of them, which comes in the place of the one before
    once the draws are on disk. Draws behind that state are made again: they come out the same.

    Parameters
    ----------
    path : Path
        Of both files, but for their suffixes.
    chain : dict of str
        What the chain is begun with, and depends on.
    n_draws : int
        Draws that the chain is to make, those of tuning among them: with the last it is saved.
    form : RecordFormat

    Attributes
    ----------
    state : StepMethodState or None
        From which the chain goes on once the recorded draws are replayed; None if it begins.

    Raises
    ------
    ValueError
        If the chain that was recorded was begun in another way.
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
        """Go on from what was saved, if the chain is the same and its draws are there."""
        check_same(self._saved.parent, saved.chain, self._chain)
        if self._checksum_of(saved.n_draws) != saved.checksum:
            log.warning(f"{self._draws} is damaged: the chain makes its draws again")
            return
        self.state, self._on_disk, self._checksum = saved.state, saved.n_draws, saved.checksum

    def _checksum_of(self, n_draws: int) -> int:
        """Return the checksum of the first n draws, or of those that there are."""
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
        """Return the next recorded draw and its statistics; None if all have been returned.

        Parameters
        ----------
        theta, others : ndarray, shapes (D,) and (F,)
            The point from which it is to be made.

        Raises
        ------
        ValueError
            If it was made from another point.
        """
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
        """Return a checksum of what a draw starts from, as far as the draw before does not say."""
        return zlib.crc32(others) if self._n else zlib.crc32(others, zlib.crc32(theta))

    def save(self, state: Any) -> None:
        """Save the chain as it is after the draw that was recorded last.

        If that fails it is tried again when it is next time to save; what was saved before stays
        good until then.
        """
        began = time.monotonic()
        try:
            records = b"".join(itertools.starmap(self._form.pack, self._pending))
            self._write(records)
            checksum = zlib.crc32(records, self._checksum)
            # Not before the draws are on disk: from here on they are taken to be there.
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
        """Write draws behind those that are saved, over what may be there."""
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
