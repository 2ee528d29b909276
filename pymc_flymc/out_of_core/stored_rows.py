"""The rows of a design, read from a source by chunks, evaluated, and forgotten."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from pymc_flymc.out_of_core.design_builder import DesignBuilder
from pymc_flymc.out_of_core.source import Partition, RowSource, Values
from pymc_flymc.regression.design import Design, Sample
from pymc_flymc.regression.passes import add_up

#: Consecutive rows of a sample that are read together: about a page of a file.
RUN = 64
#: Function of rows and their outcomes that returns terms of sums.
Terms = Callable[[Design, np.ndarray], Iterable[Any]]


@dataclass(frozen=True)
class SourceRows:
    """All rows of a source, as those of a design: see `StoredRows`.

    Attributes
    ----------
    source : RowSource
    builder : DesignBuilder
    """

    source: RowSource
    builder: DesignBuilder
    _samples: dict[int, Sample] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out samples, which are not for other processes."""
        return SourceRows, (self.source, self.builder)

    @property
    def n_rows(self) -> int:
        """Number of rows, N."""
        return self.source.n_rows

    def sample(self, stride: int) -> Sample:
        """Return about every stride-th row of all partitions."""
        if stride not in self._samples:
            work = partial(_sample, self.builder, stride)
            numbers, parts = zip(*self.source.map(work, stride=stride), strict=True)
            values = {
                name: np.concatenate([part[name] for part in parts]) for name in self.source.names
            }
            containers = partial(self.builder.values, values)
            self._samples.clear()  # one at a time: it is for steps that come one after the other
            self._samples[stride] = Sample(
                *self.builder(values), np.concatenate(numbers), containers
            )
        return self._samples[stride]

    def sums(self, terms: Terms) -> Iterator[Any]:
        """Read all rows, with their outcomes, and yield sums of their terms."""
        return self.source.map(partial(_sum_chunks, self.builder, terms), by_chunk=True)

    def sum_of_rest(self) -> tuple[np.ndarray, np.ndarray]:
        """Add up the other terms of log-likelihoods, in a pass; see `DesignBuilder.sum_of_rest`."""
        columns, offset = add_up(self.source.map(partial(_sum_rest, self.builder), by_chunk=True))
        return columns, offset


def _sum_rest(
    builder: DesignBuilder, partition: Partition, chunks: Sequence[slice] = ()
) -> tuple[Any, ...]:
    return add_up(
        _build(builder.sum_of_rest, partition, partition.read(each), range(partition.n_rows)[each])
        for each in chunks or partition.chunks()
    )


def _sample(builder: DesignBuilder, stride: int, partition: Partition) -> tuple[np.ndarray, Values]:
    """Read runs of rows, at equal distances through all partitions; return their numbers, too."""
    wide = RUN * stride
    starts = np.arange(-partition.first % wide, partition.n_rows, wide)
    rows = (starts[:, None] + np.arange(RUN)).ravel()
    rows = rows[rows < partition.n_rows]
    values = partition.read(rows)
    if len(rows):
        _build(builder, partition, values, rows)  # refuses bad rows by their numbers
    return partition.first + rows, values


def _sum_chunks(
    builder: DesignBuilder, terms: Terms, partition: Partition, chunks: Sequence[slice] = ()
) -> tuple[Any, ...]:
    """Add up the terms of some chunks, by default of all."""
    read = (read_rows(builder, partition, chunk) for chunk in chunks or partition.chunks())
    return add_up(each for rows in read for each in terms(*rows))


def read_rows(
    builder: DesignBuilder, partition: Partition, rows: slice | np.ndarray
) -> tuple[Design, np.ndarray]:
    """Read rows of a partition, a chunk or sorted numbers, as a design with observed values.

    Raises
    ------
    ValueError
        If they hold NaN or infinite numbers, or impossible outcomes; it names the row, counted
        from zero among all rows, and the partition.
    """
    numbers = range(partition.n_rows)[rows] if isinstance(rows, slice) else rows
    return _build(builder, partition, partition.read(rows), numbers)


def _build[T](
    build: Callable[[Values], T], partition: Partition, values: Values, numbers: Any
) -> T:
    """Build something of rows that were read, given their numbers in the partition.

    Raises
    ------
    ValueError
        As of `read_rows`.
    """

    def place(row: int) -> str:
        return f"row {partition.first + int(numbers[row]):,}, in partition {partition.number}"

    for name, found in values.items():
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            bad = np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(axis=1))
            others = f", and in {len(bad) - 1:,} others of {len(found):,} that were read with it"
            more = others if len(bad) > 1 else ""
            raise ValueError(
                f"{place(int(bad[0]))}: the data of {name!r} have NaN or infinite values there"
                f"{more}; drop or impute these rows"
            )
    try:
        return build(values)
    except ValueError as error:
        first = _first_bad(build, values, len(numbers))
        if first is None:
            raise
        # The message is about this row alone: numbers of rows are removed from it.
        said = _refusal(build, values, slice(first, first + 1)) or str(error)
        said = re.sub(r",? ?(first )?(at|in) row 0\b", "", said)
        said = re.sub(r"\bhas \d+ values\b", "has values", said)
        said = re.sub(r" in \d+ of \d+ rows\b", "", said)
        raise ValueError(f"{place(first)}: {said}") from None


def _refusal(build: Callable[[Values], Any], values: Values, rows: slice) -> str | None:
    """Return why rows are refused, None if they are not."""
    try:
        build({name: found[rows] for name, found in values.items()})
    except ValueError as error:
        return str(error)
    return None


def _first_bad(build: Callable[[Values], Any], values: Values, n: int) -> int | None:
    """Return the first row that is refused, by bisection; None if no single row is."""
    start, stop = 0, n
    while stop - start > 1:
        middle = (start + stop) // 2
        if _refusal(build, values, slice(start, middle)) is None:
            start = middle
        else:
            stop = middle
    return start if n and _refusal(build, values, slice(start, start + 1)) else None
