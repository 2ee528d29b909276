"""Rows that the workers of a Dask cluster hold: partitions stay there, tasks go to them.

Every task is pure and has a name: of lost workers the scheduler computes anew what is still needed,
from the rows on, with the same numbers. Nothing is scattered, pinned, or kept in an actor.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import cloudpickle
import numpy as np

from pymc_flymc.reporting import reading
from pymc_flymc.sources.checks import check_block
from pymc_flymc.sources.columns import ArrayColumn
from pymc_flymc.sources.source import Partition

__all__ = ["ClusterSource"]

#: Seconds between looks at whether there still are workers, and without any before giving up.
LOOK, PATIENCE = 5.0, 60.0
#: Objects that a worker keeps unpickled.
KEPT = 8
#: With what the names of tasks begin that read a partition's rows.
PASS, STATE, ROUND = (f"pymc-flymc-{what}" for what in ("pass", "state", "round"))

_loaded: OrderedDict[str, Any] = OrderedDict()
_turn = threading.Lock()


def _digest(what: bytes) -> str:
    return hashlib.blake2b(what, digest_size=16).hexdigest()


class Shared:
    """An object that travels as bytes, and is unpickled once in each process.

    What is compiled for it is compiled once, too.
    """

    def __init__(self, blob: bytes) -> None:
        self.blob = blob
        self.token = _digest(blob)

    def value(self) -> Any:
        """Return the object."""
        with _turn:
            if self.token not in _loaded:
                _loaded[self.token] = cloudpickle.loads(self.blob)
                if len(_loaded) > KEPT:
                    _loaded.popitem(last=False)
            _loaded.move_to_end(self.token)
            return _loaded[self.token]


def _load(
    number: int, rows: range, shapes: Mapping[str, tuple[int, ...]], *blocks: np.ndarray
) -> Partition:
    """Put blocks of the same rows together."""
    columns = {}
    for (name, row), block in zip(shapes.items(), blocks, strict=True):
        checked = check_block(block, name, (len(rows), *row), f"partition {number}")
        columns[name] = ArrayColumn(np.ascontiguousarray(checked))
    return Partition(number, rows.start, len(rows), columns)


def _run(partition: Partition, shared: Shared, by_stretch: bool) -> Any:
    """Do the work of a pass."""
    work, arguments = shared.value()
    stretches = [partition.stretches()] if by_stretch else []
    return work(partition, *arguments, *stretches)


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _second(pair: tuple[Any, Any]) -> Any:
    return pair[1]


def _weigh(partition: Partition, state: Any, shared: Shared, *arguments: Any) -> Any:
    """Do the work of a round."""
    work, first = shared.value()
    return work(partition, state, first, *arguments)


def _stay_at_home(prefixes: Sequence[str]) -> Callable[[], None]:
    """Return what tells a scheduler which tasks idle workers are not to steal."""

    def stay() -> None:  # travels by value: a scheduler need not have this package
        from distributed.stealing import fast_tasks

        fast_tasks.update(prefixes)

    return stay


class ClusterSource:
    """Rows of Dask arrays, kept by the workers of a cluster, a task for each partition.

    Parameters
    ----------
    arrays : mapping
        Of each container, Dask arrays with chunks of whole rows.
    client : distributed.Client
    """

    in_flight = 3

    def __init__(self, arrays: Mapping[str, Any], client: Any) -> None:
        self.names = tuple(arrays)
        self.n_rows = int(next(iter(arrays.values())).shape[0])
        self.shapes = {name: tuple(array.shape[1:]) for name, array in arrays.items()}
        self.token = uuid.uuid4().hex
        self.address = client.scheduler.address
        self._client, self._pid = client, os.getpid()
        self._futures: dict[str, Any] = {}
        self._shared: dict[int, tuple[Any, Any]] = {}
        self._partitions = self._persist(arrays)
        self._homes: dict[str, list[str]] = {}
        client.run_on_scheduler(_stay_at_home([PASS, STATE, ROUND]))

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
                load = delayed(_load, pure=False)
                tasks.append(load(number, rows, self.shapes, *blocks, dask_key_name=named[-1]))
        client = self._connected()
        with client.as_current():
            futures = client.compute(tasks)
        self._futures |= dict(zip(named, futures, strict=True))
        return named

    def map(
        self, work: Callable[..., Any], *arguments: Any, by_stretch: bool = False
    ) -> Iterator[Any]:
        """Yield the work of each partition: what is a sum is added up there."""
        shared = self._share((work, arguments))
        futures = [
            self._submit_home(p, PASS, _run, self._futures[p], shared, by_stretch)
            for p in self._partitions
        ]
        for future in reading(futures, self.n_rows, 1, self):
            yield self._gather([future])[0]

    def prepare(self, build: Callable[..., Any], *arguments: Any) -> tuple[list[Any], list[Any]]:
        """Have each partition's worker build what it keeps; return the names of that."""
        shared = self._share((build, arguments))
        kept, said = [], []
        for p in self._partitions:
            both = self._submit_home(p, STATE, _run, self._futures[p], shared, False)
            state = self._submit_home(p, STATE, _first, both)
            self._futures[state.key] = state
            said.append(self._submit_home(p, STATE, _second, both))
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
                _weigh,
                self._futures[p],
                self._futures[state],
                shared,
                *rest,
                token=_digest(f"{state} {said}".encode()),
            )
            for p, state in zip(self._partitions, states, strict=True)
        ]
        return lambda: self._gather(futures)

    def _share(self, value: Any) -> Any:
        """Return a task's result that is an object, to be unpickled once in each process."""
        blob = cloudpickle.dumps(value)
        return self._submit(Shared, blob, key=f"pymc-flymc-shared-{_digest(blob)}")

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
        """Submit work to a worker that has a partition, as long as there is one.

        Left to itself, a scheduler has partitions copied to whoever has nothing to do: what goes
        over the network would grow with the rows, and workers would hold more of them than their
        part. This is a preference and no pin: the work of a lost worker goes to others.
        """
        if not self._homes:
            self._wait([self._futures[p] for p in self._partitions])
            found = self._connected().who_has([self._futures[p] for p in self._partitions])
            self._homes = {p: list(found.get(p, ())) for p in self._partitions}
        key, home = f"{prefix}-{token or uuid.uuid4().hex}", self._homes[partition]
        return self._submit(
            work, *arguments, key=key, workers=home or None, allow_other_workers=bool(home)
        )

    def _connected(self) -> Any:
        """Return the client, in the process that has it."""
        if self._pid != os.getpid():
            # A fork has the memory of its parent's connection, and no thread that serves it.
            raise RuntimeError(
                "rows on a Dask cluster are sampled by the process that is connected to it: "
                "pm.sample(..., cores=1), whose chains have the whole cluster, one after the other"
            )
        if self._client.status != "running":
            raise RuntimeError(
                f"the Dask client of the rows in data= is {self._client.status}: connect again, "
                "and make a new step"
            )
        return self._client

    def _gather(self, futures: list[Any]) -> list[Any]:
        """Return results."""
        self._wait(futures)
        return list(self._connected().gather(futures))

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
        return self.__dict__ | {"_client": None, "_pid": 0, "_futures": {}, "_shared": {}}
