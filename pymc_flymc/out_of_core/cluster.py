"""Rows that the workers of a Dask cluster hold: partitions stay there, tasks go to them."""

import functools
import hashlib
import os
import threading
import time
import uuid
import weakref
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, override

import cloudpickle
import numpy as np

from pymc_flymc.compat.dask import keep_tasks_home
from pymc_flymc.out_of_core.arrays import check_rows, is_dask
from pymc_flymc.out_of_core.columns import ArrayColumn, Column
from pymc_flymc.out_of_core.source import PAUSES, Partition, RowSource, may_pass, say_again
from pymc_flymc.reporting import doing, reading

_turn = threading.Lock()
#: Functions are unpickled once in each process, so that they are compiled only once.
_unpickled = functools.lru_cache(8)(cloudpickle.loads)


def load(
    number: int, rows: range, shapes: Mapping[str, tuple[int, ...]], *blocks: np.ndarray
) -> Partition:
    """Put blocks of the same rows together."""
    columns, hashed = {}, hashlib.blake2b(digest_size=16)
    for (name, row), block in zip(shapes.items(), blocks, strict=True):
        checked = check_rows(block, name, (len(rows), *row), f"partition {number}")
        values = np.ascontiguousarray(checked)
        hashed.update(repr((values.dtype.str, values.shape)).encode())
        hashed.update(values.reshape(-1).view(np.uint8))
        columns[name] = ArrayColumn(values)
    return Partition(number, rows.start, len(rows), columns, content_hash=hashed.digest())


def run(partition: Partition, content_hash: bytes, pickled: bytes, *arguments: Any) -> Any:
    """Call a pickled function on a partition, if the hash of its rows is still the same.

    Raises
    ------
    ValueError
        If they are not.
    """
    if partition.content_hash != content_hash:
        raise ValueError(
            f"the rows of partition {partition.number} were lost and read again, and have changed "
            "meanwhile: sample again, once nobody writes to them"
        )
    with _turn:
        work = _unpickled(pickled)
    return work(partition, *arguments)


#: Seconds between looks at whether there still are workers, and without any before giving up.
LOOK, PATIENCE = 5.0, 60.0
#: What to do where workers are killed or do not come.
ENOUGH = (
    "Workers need memory for all rows, 8 bytes more for each, and some for a partition at a time"
)
#: Prefixes of the names of tasks that read a partition's rows.
PASS, STATE, SUPERBATCH = (f"pymc-flymc-{what}" for what in ("pass", "state", "superbatch"))


class LoadedPartition(NamedTuple):
    """Rows in the memory of workers: the future of a `Partition`, as it was loaded first."""

    future: Any
    content_hash: bytes
    workers: list[str]

    @property
    def home(self) -> dict[str, Any]:
        """Arguments of a task that prefer the workers which hold the partition.

        By default a scheduler copies partitions to idle workers. Then network traffic would grow
        with the rows, and workers would hold more than their share of them. This is a preference,
        not a pin: the work of a lost worker goes to others.
        """
        return dict(workers=self.workers or None, allow_other_workers=bool(self.workers))


class ClusterSource(RowSource):
    """Rows kept by the workers of a cluster, a task for each partition.

    They are loaded when they are first asked for.

    Parameters
    ----------
    columns : mapping
        For each container, the column that detects changes of its rows.
    arrays : mapping
        For each container, a Dask array; all have the same chunks of whole rows.
    client : distributed.Client
    owned : bool
        Whether the client was made for this source, and is closed with it.
    """

    in_flight = 3

    def __init__(
        self, columns: Mapping[str, Column], arrays: Mapping[str, Any], client: Any, owned: bool
    ) -> None:
        super().__init__(arrays)
        self.address = client.scheduler.address
        self._columns, self._arrays = columns, arrays
        self._client, self._pid = client, os.getpid()
        self.renew()
        client.run_on_scheduler(keep_tasks_home([PASS, STATE, SUPERBATCH]))
        if owned:
            weakref.finalize(self, _close, client, self._pid)

    @override
    def renew(self) -> None:
        self._futures: list[Any] = []
        self._partitions: list[LoadedPartition] = []
        self._states: dict[str, Any] = {}
        self._shared: dict[Callable[..., Any], Any] = {}

    @override
    def identity(self) -> bytes:
        # As this process sees them, and as they were loaded.
        own = [column.identity() for column in self._columns.values()]
        return b"".join([*own, *(p.content_hash for p in self._loaded())])

    def _loaded(self) -> list[LoadedPartition]:
        """Return the partitions, loaded where they will stay."""
        if not self._partitions:
            with doing("loading all rows into the memory of the cluster's workers"):
                futures = self._futures = self._persist()
                self._finish(futures)
                hash_of = attrgetter("content_hash")
                asked = [self._submit(hash_of, f, key=f"{f.key}-hash") for f in futures]
                hashes, found = self._gather(asked), self._connected().who_has(futures)
            self.check_unchanged()  # since the first partition was loaded
            self._partitions = [
                LoadedPartition(future, hashed, list(found.get(future.key, ())))
                for future, hashed in zip(futures, hashes, strict=True)
            ]
        return self._partitions

    def _persist(self) -> list[Any]:
        """Load the partitions where they will stay."""
        from dask import delayed

        token = uuid.uuid4().hex
        bounds = np.concatenate([[0], np.cumsum(next(iter(self._arrays.values())).chunks[0])])
        pieces = [array.to_delayed().ravel() for array in self._arrays.values()]
        tasks: list[Any] = []
        for i, blocks in enumerate(zip(*pieces, strict=True)):
            if bounds[i + 1] > bounds[i]:
                rows, number = range(bounds[i], bounds[i + 1]), len(tasks)
                name = f"pymc-flymc-rows-{token}-{number}"
                load_rows = delayed(load, pure=False)
                tasks.append(load_rows(number, rows, self.shapes, *blocks, dask_key_name=name))
        client = self._connected()
        with client.as_current():
            return list(client.compute(tasks))

    @override
    def _head_of(self, name: str, column: Column, n: int) -> np.ndarray:
        array: Any = getattr(column, "array", None)
        if not is_dask(array):
            return super()._head_of(name, column, n)
        client = self._connected()  # its workers may see files that this process does not
        with client.as_current():
            future = client.compute(array[:n])
        return np.asarray(self._gather([future])[0])

    @override
    def map(
        self, work: Callable[..., Any], by_chunk: bool = False, stride: int = 1
    ) -> Iterator[Any]:
        shared = self._share(work)
        futures = [self._submit_home(p, PASS, shared) for p in self._loaded()]
        for future in reading(futures, self.n_rows, stride, self):
            yield self._gather([future])[0]

    @override
    def prepare(self, build: Callable[[Partition], tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
        shared = self._share(build)
        kept: list[Any] = []
        said: list[Any] = []
        for p in self._loaded():
            both = self._submit_home(p, STATE, shared)
            for i, futures in enumerate((kept, said)):
                key = f"{STATE}-{uuid.uuid4().hex}"
                futures.append(self._submit(itemgetter(i), both, key=key, **p.home))
        found = [self._gather([each])[0] for each in reading(said, self.n_rows, 1, self)]
        self._states |= {state.key: state for state in kept}
        return [state.key for state in kept], found

    @override
    def start(
        self, work: Callable[..., Any], states: list[Any], *arguments: Any
    ) -> Callable[[], list[Any]]:
        if work not in self._shared:
            self._shared = {work: self._share(work)}
        shared, futures = self._shared[work], []
        for p, state in zip(self._loaded(), states, strict=True):
            # The name is made of all that random numbers depend on, as lost tasks run again.
            token = _hash(f"{state} {arguments!r}".encode())
            more = self._states[state], *arguments
            futures.append(self._submit_home(p, SUPERBATCH, shared, *more, token=token))
        return lambda: self._gather(futures)

    def _share(self, work: Callable[..., Any]) -> Any:
        """Return a future of a pickled function, so that each worker is sent it once."""
        pickled = cloudpickle.dumps(work)
        return self._submit(bytes, pickled, key=f"pymc-flymc-shared-{_hash(pickled)}")

    def _submit(self, work: Callable[..., Any], *arguments: Any, key: str, **where: Any) -> Any:
        client = self._connected()
        with client.as_current():  # it need not be Dask's default
            return client.submit(work, *arguments, key=key, **where)

    def _submit_home(
        self,
        partition: LoadedPartition,
        prefix: str,
        shared: Any,
        *arguments: Any,
        token: str | None = None,
    ) -> Any:
        """Submit work on a partition to a worker that has it."""
        key = f"{prefix}-{token or uuid.uuid4().hex}"
        rows = partition.future, partition.content_hash
        return self._submit(run, *rows, shared, *arguments, key=key, **partition.home)

    def _connected(self) -> Any:
        """Return the client, in the process that has it."""
        if self._pid != os.getpid():
            # A forked process has a copy of the connection, but no thread that serves it.
            raise RuntimeError(
                "rows on a Dask cluster are sampled by the process that is connected to it: "
                "pm.sample(..., cores=1), whose chains have the whole cluster, one after the other"
            )
        self._check_running()
        return self._client

    def _check_running(self) -> None:
        if self._client.status != "running":
            raise RuntimeError(
                f"the Dask client of the rows in data= is {self._client.status}: connect again, "
                "and make a new step"
            ) from None

    def _gather(self, futures: list[Any]) -> list[Any]:
        """Return results."""
        try:
            self._finish(futures)
            return list(self._connected().gather(futures))
        except (Exception, CancelledError) as error:
            self._check_running()  # a closed client is the error to report
            for number in self._unread():
                error.add_note(f"partition {number} of data= cannot be read")
            if type(error).__name__ == "KilledWorker":
                error.add_note(ENOUGH)
            raise

    def _unread(self) -> list[int]:
        """Return the numbers of partitions whose rows could not be read."""
        return [i for i, future in enumerate(self._futures) if future.status == "error"]

    def _finish(self, futures: list[Any]) -> None:
        """Wait until there are results, or an error that trying again cannot mend."""
        for pause in PAUSES:
            self._wait(futures)
            failed = [future for future in futures if future.status == "error"]
            again = [future for future in failed if may_pass(future.exception())]
            if not again or len(again) < len(failed):
                return
            said = ", ".join(map(str, self._unread())) or "some"
            say_again(f"partitions {said} of data=", again[0].exception(), pause)
            time.sleep(pause)
            self._retry(again)
        self._wait(futures)

    def _retry(self, futures: list[Any]) -> None:
        """Have failed tasks run again, with those before them that have failed."""
        with suppress(KeyError):  # raised by Dask: tasks before these have no futures
            self._connected().retry(futures)
        # Their new states arrive later: wait until none of them is an error.
        began = time.monotonic()
        while any(each.status == "error" for each in futures) and time.monotonic() < began + LOOK:
            time.sleep(0.01)

    def _wait(self, futures: list[Any]) -> None:
        """Wait for results; raise an error if no workers are left to compute them."""
        from distributed import wait

        client, alone = self._connected(), 0.0
        while True:
            began = time.monotonic()
            try:
                with client.as_current():
                    wait(futures, timeout=LOOK)
                return
            except TimeoutError:
                self._check_running()
            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            lost = not any(worker["status"] == "running" for worker in workers)
            alone = alone + time.monotonic() - began if lost else 0.0
            if alone > PATIENCE:
                what = "no workers"
                if workers:
                    what += f" but such as wait for memory to become free, {len(workers)} of them,"
                raise RuntimeError(
                    f"the Dask cluster at {self.address} has had {what} for {alone:.0f} s. {ENOUGH}"
                )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: other processes cannot use it."""
        left_out = ("_states", "_shared", "_columns", "_arrays", "_futures", "_partitions")
        return self.__dict__ | {"_client": None, "_pid": 0} | {name: () for name in left_out}


def _hash(what: bytes) -> str:
    return blake2b(what, digest_size=16).hexdigest()


def _close(client: Any, pid: int) -> None:
    """Close a client, in the process that made it."""
    if os.getpid() == pid:
        # The thread that collects garbage may be the one that serves the connection, or may hold
        # a lock that this one waits for. So another thread closes the client.
        threading.Thread(target=client.close, daemon=True).start()
