"""Runs that go on after a kill: what they depend on, their folder, and the draws of each chain."""

import inspect
import itertools
import os
import pickle
import platform
import struct
import sys
import time
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.compat.pymc import CONSTRUCTION
from pymc_flymc.errors import warn
from pymc_flymc.graphs.content_hash import content_hash, without_addresses
from pymc_flymc.kernels.native import map_fields
from pymc_flymc.reading.fingerprint import Fingerprint
from pymc_flymc.reporting import log

#: Packages whose versions draws may depend on, to the last bit.
PACKAGES = "pymc-flymc", "pymc", "pytensor", "numba", "numpy", "scipy"
#: Settings of a step that do not affect its draws, or are part of the model and its data.
NO_MATTER = ("checkpoint", "client", "data", "model", "rng")
#: What a chain depends on: its seed, and all that the chains of a run share.
SEED, RUN = "random_seed", "model, data or settings"
#: Entries that are hashes, which messages do not show.
HASHED = "model", "data", SEED, RUN


def identity_of_run(
    step: type, vars: Sequence[Any], settings: Mapping[str, Any], fingerprint: Fingerprint
) -> dict[str, str]:
    """Return what all chains of a run depend on, by names that users know, from given settings."""
    found = {
        "step": step.__name__,
        "model": fingerprint.structure,
        "data": fingerprint.content_hash,
        "vars": ", ".join(str(getattr(each, "name", each)) for each in vars),
    }
    for name, parameter in inspect.signature(step).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name not in NO_MATTER:
            found[name] = written(settings.get(name, parameter.default))
    python = {"version of Python": ".".join(platform.python_version_tuple()[:2])}
    return found | python | {f"version of {each}": version(each) for each in PACKAGES}


def identity_of_target(target: Any, adaptation: Any, others: np.ndarray) -> str:
    """Return a hash of numbers that chains share."""
    # They change in the last bit with the data of any row, and with the model's density: its graph
    # may have operations of the user's own, of which only the names can be compared. Without a
    # bound there are no sums over rows: then the rows are hashed, which each draw reads anyway.
    names = [type(adaptation).__name__, adaptation.spec.name, written(target.geometry._fields)]
    found = blake2b(digest_size=16)
    for part in target.parts:
        names += [written(part.bound), repr(part.expected_bright)]
        found.update(content_hash(part.statistics))
    for array in target.own_rows:
        found.update(content_hash(array, sampled=False))
    found.update(np.array(target.density_at_centre(others)).tobytes())
    map_fields(target.geometry, lambda array: found.update(content_hash(array)))
    found.update("\n".join(names).encode())
    return found.hexdigest()


def check_same(folder: Path, then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to continue a run, or a chain, that depends on something else than when it began."""
    differences = []
    for name in {**then, **now}:
        before, after = (each.get(name, "nothing") for each in (then, now))
        if before != after:
            seen = "" if name in HASHED else f" ({before} there, {after} here)"
            differences.append(name + seen)
    if differences:
        raise ValueError(
            f"checkpoint: {folder} is the folder of a run with other {', '.join(differences)}. "
            "Give another folder, or delete this one to start again"
        )


def written(value: Any) -> str:
    """Return a setting as text that is equal, in any process, for equal settings."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape} {content_hash(value).hex()}"
    if type(value).__repr__ is object.__repr__:  # such a repr contains an address, as of a bound
        settings = (f"{name}={written(each)}" for name, each in vars(value).items())
        return f"{type(value).__name__}({', '.join(settings)})"
    return without_addresses(repr(value))


class Checkpoint:
    """Files of the steps and chains of one run in a folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()  # chains' processes may be elsewhere
        self._run, self._anchor = self.folder / "run", self.folder / "anchor"
        self._identity: dict[str, str] = {}
        self._prepared = ""
        self._is_new = True

    def begin(self, step: Any, fingerprint: Fingerprint) -> Anchor | None:
        """Take the folder for a step's run; return the anchor found when it first began."""
        (given, *_), settings = getattr(step, CONSTRUCTION)
        self._identity = identity_of_run(type(step), given, settings, fingerprint)
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
        self._is_new = before is None
        if before is None:
            return None
        check_same(self.folder, before["identity"], self._identity)
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
        elif read_object(self._run)["prepared"] != prepared:
            raise ValueError(
                f"checkpoint: what is computed before sampling is not what it was, to the last "
                f"bit, when the run in {self.folder} began: another processor, another BLAS or "
                "other code of an operation in the model may be the reason. Continue on the "
                "machine where it began, or give another folder"
            )

    def begin_chain(self, step: Any, n_parameters: int, tune: int, draws: int) -> "Journal":
        """Begin to record a step's chain, or set it to the state after its last recorded draw."""
        hold(self.folder, alone=False)
        bits = step.rng.bit_generator
        # The key of a chain depends neither on the number of chains nor on where the chain runs.
        key = getattr(bits.seed_seq, "spawn_key", ())
        # A chain's record may outlive the record of its run.
        run = written(self._identity | {"prepared": self._prepared})
        seed, hashed = (
            blake2b(text.encode(), digest_size=8).hexdigest() for text in (written(bits.state), run)
        )
        form = RecordFormat(
            n_parameters, {k: kind for k, (kind, _) in step.stats_dtypes_shapes.items()}
        )
        path = self.folder / "-".join(["chain", *map(str, key)])
        journal = Journal(path, {"tune": str(tune), SEED: seed, RUN: hashed}, tune + draws, form)
        if journal.state is None:
            journal.save(step.sampling_state)
        else:
            step.sampling_state = journal.state
            step.tune = tune > 0  # the replay begins with tuning
        return journal

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ValueError(
                f"checkpoint: {self.folder} cannot be used ({error}): it must be a folder that can "
                "be written to, or a place where one can be made"
            ) from error


#: Least seconds between two saves, and least ratio of that time to the time that a save takes.
INTERVAL, RATIO = 1.0, 100.0
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

    def __init__(
        self, path: Path, chain: dict[str, str], n_draws: int, form: "RecordFormat"
    ) -> None:
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
        self._records = _records(self._draws, self._form.size)
        self._due = time.monotonic() + INTERVAL

    def _resume(self, saved: SavedChain) -> None:
        """Continue from what was saved, if the chain is the same and its draws are on disk."""
        check_same(self._saved.parent, saved.chain, self._chain)
        checksum = 0
        for record in itertools.islice(_records(self._draws, self._form.size), saved.n_draws):
            checksum = zlib.crc32(record, checksum)
        if checksum != saved.checksum:
            log.warning(f"{self._draws} is damaged: the chain makes its draws again")
            return
        self.state, self._on_disk, self._checksum = saved.state, saved.n_draws, checksum

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


def _records(path: Path, size: int) -> Generator[bytes]:
    """Yield a file's bytes, if there is one, in blocks of a size."""
    if path.exists():
        with path.open("rb") as file:
            while block := file.read(size):
                yield block


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


def write_object(path: Path, content: Any) -> None:
    """Write an object to a file: a kill, or a power cut if ``fsync`` works, leaves the old one."""
    pickled = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(blake2b(pickled, digest_size=16).digest() + pickled)
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
    content = path.read_bytes() if path.exists() else b""
    digest, pickled = content[:16], content[16:]
    # This comes before unpickling: a truncated file could be taken for another object.
    whole = blake2b(pickled, digest_size=16).digest() == digest
    return pickle.loads(pickled) if whole else None


#: Locks of this process, and of its ancestors by fork: they end with the last of these processes.
_held: dict[Path, int] = {}


def hold(folder: Path, alone: bool = True) -> None:
    """Lock a folder against other runs until this process and its chains' processes end.

    A chain's process locks it together with its parent, and not `alone`.
    """
    file = folder / "lock"
    # (The folder of that name may be another one by now.)
    if folder in _held and file.exists() and os.path.samestat(os.fstat(_held[folder]), file.stat()):
        return
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(lock, alone)
    except BlockingIOError as error:
        owner = os.read(lock, 20).decode()
        os.close(lock)
        raise BlockingIOError(error.errno, owner) from None
    if alone:
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        # It is shared with chains' processes: one that outlives this process keeps others out.
        _lock(lock, alone=False)
    _held[folder] = lock


def _lock(lock: int, alone: bool) -> None:
    if sys.platform != "win32":  # Windows has no such lock
        import fcntl

        fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
