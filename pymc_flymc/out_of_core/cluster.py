"""Rows that the workers of a Dask cluster hold: partitions stay there, tasks go to them.

Every task is pure and has a name: of lost workers the scheduler computes anew what is still needed,
from the rows on, with the same numbers. Nothing is scattered, pinned, or kept in an actor.
"""

from __future__ import annotations

import os
import time
import uuid
import weakref
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import cloudpickle
import numpy as np

from pymc_flymc.compat.dask import keep_tasks_home
from pymc_flymc.out_of_core.columns import Column
from pymc_flymc.out_of_core.tasks import (
    Shared,
    digest_of_rows,
    first_of,
    hash_of,
    load,
    run_pass,
    run_round,
    second_of,
)
from pymc_flymc.reporting import doing, reading

__all__ = ["ClusterSource"]

#: Seconds between looks at whether there still are workers, and without any before giving up.
LOOK, PATIENCE = 5.0, 60.0
#: With what the names of tasks begin that read a partition's rows.
PASS, STATE, ROUND = (f"pymc-flymc-{what}" for what in ("pass", "state", "round"))


class ClusterSource:
    """Rows kept by the workers of a cluster, a task for each partition.

    They are loaded when they are first asked for.

    Parameters
    ----------
    columns : mapping
        Of each container, what tells of changes of its rows.
    arrays : mapping
        Of each container, Dask arrays with the same chunks of whole rows.
    client : distributed.Client
    owned : bool
        Whether the client was made for this source, and is closed with it.
    """

    in_flight = 3

    def __init__(
        self,
        columns: Mapping[str, Column],
        arrays: Mapping[str, Any],
        client: Any,
        owned: bool = False,
    ) -> None:
        self.names = tuple(arrays)
        self.n_rows = int(next(iter(arrays.values())).shape[0])
        self.shapes = {name: tuple(array.shape[1:]) for name, array in arrays.items()}
        self.address = client.scheduler.address
        self._columns, self._arrays = columns, arrays
        self._client, self._pid = client, os.getpid()
        self.renew()
        client.run_on_scheduler(keep_tasks_home([PASS, STATE, ROUND]))
        if owned:
            weakref.finalize(self, _close, client, self._pid)

    def renew(self) -> None:
        """Forget the rows that workers have loaded, and what was made of them."""
        self.token = uuid.uuid4().hex
        self._partitions: list[str] = []
        self._futures: dict[str, Any] = {}
        self._shared: dict[int, tuple[Any, Any]] = {}
        self._homes: dict[str, list[str]] = {}
        self._digests: dict[str, bytes] = {}

    def identity(self) -> bytes:
        """Return what changes with the rows: as this process sees them, and as they were loaded."""
        own = [column.identity() for column in self._columns.values()]
        return b"".join([*own, *(self._digests[p] for p in self._loaded())])

    def _loaded(self) -> list[str]:
        """Return the names of the partitions, loaded where they will stay."""
        if not self._partitions:
            with doing("loading all rows into the memory of the cluster's workers"):
                self._partitions = self._persist(self._arrays)
                futures = [self._futures[p] for p in self._partitions]
                self._wait(futures)
                asked = [self._submit(digest_of_rows, f, key=f"{f.key}-digest") for f in futures]
                self._digests = dict(zip(self._partitions, self._gather(asked), strict=True))
                found = self._connected().who_has(futures)
            self._homes = {p: list(found.get(p, ())) for p in self._partitions}
        return self._partitions

    def _persist(self, arrays: Mapping[str, Any]) -> list[str]:
        """Load the partitions where they will stay; return their names."""
        from dask import delayed

        bounds = np.concatenate([[0], np.cumsum(next(iter(arrays.values())).chunks[0])])
        pieces = [array.to_delayed().ravel() for array in arrays.values()]
        named: list[str] = []
        tasks: list[Any] = []
        for i, blocks in enumerate(zip(*pieces, strict=True)):
            if bounds[i + 1] > bounds[i]:
                rows, number = range(bounds[i], bounds[i + 1]), len(named)
                named.append(f"pymc-flymc-rows-{self.token}-{number}")
                load_rows = delayed(load, pure=False)
                tasks.append(load_rows(number, rows, self.shapes, *blocks, dask_key_name=named[-1]))
        client = self._connected()
        with client.as_current():
            futures = client.compute(tasks)
        self._futures |= dict(zip(named, futures, strict=True))
        return named

    def map(
        self, work: Callable[..., Any], *arguments: Any, by_chunk: bool = False
    ) -> Iterator[Any]:
        """Yield the work of each partition: what is a sum is added up there."""
        shared = self._share((work, arguments))
        futures = [self._submit_home(p, PASS, run_pass, shared, by_chunk) for p in self._loaded()]
        for future in reading(futures, self.n_rows, 1, self):
            yield self._gather([future])[0]

    def prepare(self, build: Callable[..., Any], *arguments: Any) -> tuple[list[Any], list[Any]]:
        """Have each partition's worker build what it keeps; return the names of that."""
        shared = self._share((build, arguments))
        kept, said = [], []
        for p in self._loaded():
            both = self._submit_home(p, STATE, run_pass, shared, False)
            state = self._submit(first_of, both, key=f"{STATE}-{uuid.uuid4().hex}", **self._home(p))
            self._futures[state.key] = state
            key = f"{STATE}-{uuid.uuid4().hex}"
            said.append(self._submit(second_of, both, key=key, **self._home(p)))
            kept.append(state.key)
        found = [self._gather([each])[0] for each in reading(said, self.n_rows, 1, self)]
        return kept, found

    def start(
        self, work: Callable[..., Any], states: list[Any], *arguments: Any
    ) -> Callable[[], list[Any]]:
        """Submit a round, one task for each partition. Its name is what its numbers come from."""
        first, *rest = arguments
        shared = self._share_once(work, first)
        said = repr(rest)
        futures = [
            self._submit_home(
                p,
                ROUND,
                run_round,
                self._futures[state],
                shared,
                *rest,
                token=hash_of(f"{state} {said}".encode()),
            )
            for p, state in zip(self._loaded(), states, strict=True)
        ]
        return lambda: self._gather(futures)

    def _share(self, value: Any) -> Any:
        """Return a task's result that is an object, to be unpickled once in each process."""
        blob = cloudpickle.dumps(value)
        return self._submit(Shared, blob, key=f"pymc-flymc-shared-{hash_of(blob)}")

    def _share_once(self, work: Callable[..., Any], first: Any) -> Any:
        self._connected()
        if id(work) not in self._shared or self._shared[id(work)][0] is not first:
            self._shared[id(work)] = first, self._share((work, first))
        return self._shared[id(work)][1]

    def _submit(self, work: Callable[..., Any], *arguments: Any, key: str, **where: Any) -> Any:
        client = self._connected()
        with client.as_current():  # it need not be Dask's default
            return client.submit(work, *arguments, key=key, **where)

    def _submit_home(
        self,
        partition: str,
        prefix: str,
        work: Callable[..., Any],
        *arguments: Any,
        token: str | None = None,
    ) -> Any:
        """Submit work on a partition to a worker that has it."""
        key, rows = f"{prefix}-{token or uuid.uuid4().hex}", self._futures[partition]
        digest = self._digests[partition]
        return self._submit(work, rows, digest, *arguments, key=key, **self._home(partition))

    def _home(self, partition: str) -> dict[str, Any]:
        """Return which worker is preferred for a partition, as long as there is one.

        Left to itself, a scheduler has partitions copied to whoever has nothing to do: what goes
        over the network would grow with the rows, and workers would hold more of them than their
        part. This is a preference and no pin: the work of a lost worker goes to others.
        """
        home = self._homes[partition]
        return dict(workers=home or None, allow_other_workers=bool(home))

    def _connected(self) -> Any:
        """Return the client, in the process that has it."""
        if self._pid != os.getpid():
            # A fork has the memory of its parent's connection, and no thread that serves it.
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
            self._wait(futures)
            return list(self._connected().gather(futures))
        except (Exception, CancelledError):
            self._check_running()  # where somebody has closed it, this is what to say
            raise

    def _wait(self, futures: list[Any]) -> None:
        """Wait for results, and say so where there are no workers left to compute them."""
        from distributed import wait

        client, alone = self._connected(), 0.0
        while True:
            began = time.monotonic()
            try:
                with client.as_current():
                    wait(futures, timeout=LOOK)
                return
            except TimeoutError:
                lost = not client.scheduler_info(n_workers=-1)["workers"]
                alone = alone + time.monotonic() - began if lost else 0.0
            if alone > PATIENCE:
                raise RuntimeError(
                    f"the Dask cluster at {self.address} has had no workers for {alone:.0f} s"
                )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection, which is of one process: elsewhere nothing can be asked for."""
        nothing: dict[str, Any] = {}
        kept = {"_futures": nothing, "_shared": nothing, "_columns": nothing, "_arrays": nothing}
        return self.__dict__ | {"_client": None, "_pid": 0} | kept


def _close(client: Any, pid: int) -> None:
    """Close a client, in the process that made it."""
    if os.getpid() == pid:
        client.close()
