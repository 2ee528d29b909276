"""Rows of several containers together, cut into partitions on which work is done."""

import functools
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, override

import numpy as np

from pymc_flymc.out_of_core.arrays import check_rows
from pymc_flymc.out_of_core.columns import Column
from pymc_flymc.reporting import log, reading
from pymc_flymc.threads import in_order

#: Seconds before each further try to read rows.
PAUSES = 1.0, 2.0, 4.0, 8.0, 16.0
#: Errors that waiting does not mend.
FOR_GOOD = FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError


def may_pass(error: BaseException | None) -> bool:
    """Return whether a later try may succeed: a disk or a network has failed, the file exists."""
    return isinstance(error, OSError) and not isinstance(error, FOR_GOOD)


def say_again(what: str, error: BaseException | None, pause: float) -> None:
    """Say that rows will be read again after a pause, in seconds."""
    log.warning(
        f"{what} could not be read ({type(error).__name__}: {error}): trying again in {pause:.0f} s"
    )


def read_patiently[T](read: Callable[[], T], what: str) -> T:
    """Return what is read, after some tries; an error that remains names what was read.

    Parameters
    ----------
    read : callable
    what : str
        For messages.
    """
    for pause in (*PAUSES, None):
        try:
            return read()
        except Exception as error:
            if pause is None or not may_pass(error):
                error.add_note(f"{what} cannot be read")
                raise
            say_again(what, error, pause)
            time.sleep(pause)
    raise AssertionError


#: Largest number of rows of a partition, in a source that this process reads.
PARTITION = 1 << 23
#: Up to so many rows are one partition; more are split for threads.
SINGLE = 1 << 20
#: Rows read at a time in a pass.
CHUNK = 1 << 18

#: Rows of each container.
Values = dict[str, np.ndarray]


@dataclass(frozen=True)
class Partition:
    """Some consecutive rows of all containers.

    Attributes
    ----------
    number : int
        Among the partitions.
    first : int
        Number of its first row among all rows.
    n_rows : int
    columns : mapping
        Of each container.
    start : int
        Where the partition begins in the columns.
    content_hash : bytes
        Of its rows, if they may be loaded again.
    """

    number: int
    first: int
    n_rows: int
    columns: Mapping[str, Column]
    start: int = 0
    content_hash: bytes = b""

    def read(self, rows: slice | np.ndarray) -> Values:
        """Return rows by their numbers in the partition: a slice, or a sorted array of them.

        Raises
        ------
        ValueError
            If a container has fewer rows there than it should, or holds anything but numbers.
        """
        if isinstance(rows, slice):
            start, stop, step = rows.indices(self.n_rows)
            at: Any = slice(self.start + start, self.start + stop, step)
            n = len(range(start, stop, step))
        else:
            at, n = self.start + rows, len(rows)
        what, found = f"what was read in partition {self.number}", {}
        for name, column in self.columns.items():
            named = f"data= of {name!r}, in partition {self.number},"
            values = read_patiently(functools.partial(column.read, at), named)
            found[name] = check_rows(values, name, (n, *column.shape[1:]), what)
        return found

    def chunks(self) -> list[slice]:
        """Cut the partition into what is read at a time: chunks of the stores, where possible."""
        together = max(column.chunk for column in self.columns.values())
        size = max(1, CHUNK // together) * together
        starts = range(0, self.n_rows, size)
        return [slice(start, min(start + size, self.n_rows)) for start in starts]


class RowSource(ABC):
    """All rows of some containers, wherever they are stored.

    Attributes
    ----------
    names : tuple of str
        Of the containers.
    n_rows : int
    shapes : dict
        Of a row of each container.
    row_bytes : int
        Of a row in all containers.
    in_flight : int
        Number of superbatches to have under way at a time.
    """

    in_flight: int
    _columns: Mapping[str, Column]

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.names = tuple(arrays)
        self.n_rows = int(next(iter(arrays.values())).shape[0])
        self.shapes = {name: tuple(array.shape[1:]) for name, array in arrays.items()}
        self.row_bytes = sum(
            array.dtype.itemsize * math.prod(array.shape[1:]) for array in arrays.values()
        )

    @property
    def places(self) -> dict[str, str]:
        """Where the rows of each container are."""
        return {name: column.place for name, column in self._columns.items()}

    def check_unchanged(self) -> None:
        """Refuse rows whose files have been written to since `identity` was called."""
        for column in self._columns.values():
            column.check_unchanged()

    def head(self, n: int) -> Values:
        """Return the first n rows."""
        return {name: self._head_of(name, column, n) for name, column in self._columns.items()}

    def _head_of(self, name: str, column: Column, n: int) -> np.ndarray:
        read = functools.partial(column.read, slice(0, n))
        return np.asarray(read_patiently(read, f"data= of {name!r}"))

    @abstractmethod
    def map(
        self, work: Callable[..., Any], by_chunk: bool = False, stride: int = 1
    ) -> Iterator[Any]:
        """Yield ``work(partition)`` of each partition, in their order.

        Parameters
        ----------
        by_chunk : bool
            The work is a sum over rows: the source may call ``work(partition, chunks)`` for some of
            a partition's chunks at a time.
        stride : int
            About one in so many rows is read: for the log, which counts passes over all of them.
        """

    @abstractmethod
    def prepare(self, build: Callable[[Partition], tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
        """Call ``build`` on each partition, and keep its results where the rows are.

        ``build`` returns a state that is kept, and a summary of it. The result is references to
        the states, for `start`, and a list of the summaries.
        """

    @abstractmethod
    def start(
        self, work: Callable[..., Any], states: list[Any], *arguments: Any
    ) -> Callable[[], list[Any]]:
        """Begin ``work(partition, state, *arguments)`` of each partition; the result waits."""

    @abstractmethod
    def identity(self) -> bytes:
        """Return a value that changes with the rows, as far as can be told without a full pass.

        Raises
        ------
        ValueError
            If rows are no longer where they were.
        """

    @abstractmethod
    def renew(self) -> None:
        """Forget rows that have been read: they have changed."""


def partition_bounds(n_rows: int, chunk: int) -> list[int]:
    """Return where partitions of a local source begin and end, between chunks where possible."""
    n = 1 if n_rows <= SINGLE else 4 * -(-n_rows // (4 * PARTITION))
    size = -(-n_rows // n)
    size = -(-size // chunk) * chunk
    return [*range(0, n_rows, size), n_rows]


class LocalSource(RowSource):
    """Rows that this process reads itself.

    Parameters
    ----------
    columns : mapping
        Of each container, all with the same number of rows.
    bounds : sequence of int, optional
        Where partitions begin and end.
    """

    in_flight = 1

    def __init__(self, columns: Mapping[str, Column], bounds: Sequence[int] | None = None) -> None:
        super().__init__(columns)
        self._columns = columns
        if bounds is None:
            bounds = partition_bounds(self.n_rows, max(c.chunk for c in columns.values()))
        self.partitions = [
            Partition(i, first, last - first, columns, first)
            for i, (first, last) in enumerate(itertools.pairwise(bounds))
        ]

    @override
    def map(
        self, work: Callable[..., Any], by_chunk: bool = False, stride: int = 1
    ) -> Iterator[Any]:
        tasks: list[tuple[Any, ...]] = [(partition,) for partition in self.partitions]
        if by_chunk:  # more of them, for threads
            tasks = [(p, [chunk]) for p in self.partitions for chunk in p.chunks()]
        counted = reading(tasks, self.n_rows, stride, self)
        yield from in_order(lambda task: work(*task), counted, len(tasks))
        self.check_unchanged()  # sums of old and new rows are those of no data

    @override
    def prepare(self, build: Callable[[Partition], tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
        kept, said = zip(*self.map(build), strict=True)
        return list(kept), list(said)

    @override
    def start(
        self, work: Callable[..., Any], states: list[Any], *arguments: Any
    ) -> Callable[[], list[Any]]:
        self.check_unchanged()
        pairs = list(zip(self.partitions, states, strict=True))
        return lambda: list(in_order(lambda pair: work(*pair, *arguments), pairs, len(pairs)))

    @override
    def identity(self) -> bytes:
        # Random numbers depend on the partitions.
        cut = repr([partition.first for partition in self.partitions]).encode()
        return b"".join([cut, *(column.identity() for column in self._columns.values())])

    @override
    def renew(self) -> None:
        pass
