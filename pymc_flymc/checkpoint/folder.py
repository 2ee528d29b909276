"""The folder of a run that can continue after it was killed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.checkpoint.files import RecordFormat, hold, hold_too, read_object, write_object
from pymc_flymc.checkpoint.journal import Journal
from pymc_flymc.checkpoint.run_identity import RUN, SEED, check_same, written
from pymc_flymc.reporting import log


class Checkpoint:
    """Files of the steps and chains of one run in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()  # chains' processes may be elsewhere
        self._identity: dict[str, str] = {}
        self._prepared = ""
        self._is_new = True

    @property
    def _run(self) -> Path:
        return self.folder / "run"

    @property
    def _anchor(self) -> Path:
        return self.folder / "anchor"

    def begin(self, identity: Mapping[str, str]) -> Anchor | None:
        """Take the folder for a run, and return the anchor found when it first began."""
        with self._usable():
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                hold(self.folder)
            except BlockingIOError as error:
                raise ValueError(
                    f"checkpoint: {self.folder} is in use by process {error.strerror}. Wait until "
                    "it has ended, or end it; another run needs another folder"
                ) from None
            before = read_object(self._run)
        self._identity, self._is_new = dict(identity), before is None
        if before is None:
            return None
        check_same(self.folder, before["identity"], identity)
        log.info(f"the run in {self.folder} goes on")
        anchor: Anchor | None = read_object(self._anchor)
        return anchor

    def keep(self, anchor: Anchor, prepared: str) -> None:
        """Write the anchor of a run that begins; refuse to continue one that differs."""
        self._prepared = prepared
        if self._is_new:
            with self._usable():
                write_object(self._anchor, anchor)
                write_object(self._run, {"identity": self._identity, "prepared": prepared})
            self._is_new = False
            return
        before = read_object(self._run)["prepared"]
        if before != prepared:
            raise ValueError(
                f"checkpoint: what is computed before sampling is not what it was, to the last "
                f"bit, when the run in {self.folder} began: another processor, another BLAS or "
                "other code of an operation in the model may be the reason. Continue on the "
                "machine where it began, or give another folder"
            )

    def journal(
        self, rng: np.random.Generator, tune: int, n_draws: int, form: RecordFormat
    ) -> Journal:
        """Return the journal of the chain that begins with this generator."""
        hold_too(self.folder)
        # The key of a chain depends neither on the number of chains nor on where the chain runs.
        key = getattr(rng.bit_generator.seed_seq, "spawn_key", ())
        seed = blake2b(written(rng.bit_generator.state).encode(), digest_size=8).hexdigest()
        # A chain's record may outlive the record of its run.
        run = written(self._identity | {"prepared": self._prepared})
        hashed = blake2b(run.encode(), digest_size=8).hexdigest()
        chain = {"tune": str(tune), SEED: seed, RUN: hashed}
        path = self.folder / "-".join(["chain", *map(str, key)])
        return Journal(path, chain, n_draws, form)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ValueError(
                f"checkpoint: {self.folder} cannot be used ({error}): it must be a folder that can "
                "be written to, or a place where one can be made"
            ) from error
