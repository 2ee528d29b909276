"""Designs whose rows lie elsewhere: read by stretches, evaluated, and forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_flymc.regression.design import Design
from pymc_flymc.sources.source import Partition, RowSource, Values

__all__ = ["Recipe", "TallDesign", "read_rows"]

#: From rows of containers to a design of these rows and their observed values.
Recipe = Callable[[Values], tuple[Design, np.ndarray]]
#: Consecutive rows of a sample that are read together: about a page of a file.
RUN = 64


@dataclass(frozen=True, kw_only=True)
class TallDesign(Design):
    """A design of rows that a source holds.

    Its `X`, `offset` and `sparse` have the columns, and no rows.

    Attributes
    ----------
    source : RowSource
    recipe : Recipe
    """

    source: RowSource
    recipe: Recipe
    _samples: dict[int, tuple[Design, np.ndarray]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def n_rows(self) -> int:
        """Number of rows, N."""
        return self.source.n_rows

    def sample(self, stride: int) -> tuple[Design, np.ndarray]:
        """Return about every stride-th row of all partitions, in memory, with observed values."""
        if stride not in self._samples:
            parts = list(self.source.map(_sample, self.recipe, stride))
            names = self.source.names
            together = {name: np.concatenate([part[name] for part in parts]) for name in names}
            self._samples.clear()  # one at a time: it is for steps that come one after the other
            self._samples[stride] = self.recipe(together)
        return self._samples[stride]


def _sample(partition: Partition, recipe: Recipe, stride: int) -> Values:
    """Read runs of rows, at equal distances through all partitions."""
    wide = RUN * stride
    starts = np.arange(-partition.first % wide, partition.n_rows, wide)
    rows = (starts[:, None] + np.arange(RUN)).ravel()
    values = partition.read(rows[rows < partition.n_rows])
    if len(rows):
        _checked(recipe, partition, values, rows)
    return values


def read_rows(
    recipe: Recipe, partition: Partition, rows: slice | np.ndarray
) -> tuple[Design, np.ndarray]:
    """Read rows of a partition, a stretch or sorted numbers, as a design with observed values.

    Raises
    ------
    ValueError
        If they hold NaN or infinite numbers, or impossible outcomes; it names the row, counted
        from zero among all rows, and the partition.
    """
    numbers = range(partition.n_rows)[rows] if isinstance(rows, slice) else rows
    return _checked(recipe, partition, partition.read(rows), numbers)


def _checked(
    recipe: Recipe, partition: Partition, values: Values, numbers: Any
) -> tuple[Design, np.ndarray]:
    for name, found in values.items():
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            bad = ~np.isfinite(found.reshape(len(found), -1)).all(axis=1)
            place = _place(partition, numbers[int(np.flatnonzero(bad)[0])])
            raise ValueError(
                f"{place}: the data of {name!r} have NaN or infinite values, there and in "
                f"{int(bad.sum()) - 1} more of the {len(found):,} rows that were read with it; "
                "drop or impute these rows"
            )
    try:
        return recipe(values)
    except ValueError as error:
        first = _first_bad(recipe, values, len(numbers))
        if first is None:
            raise
        # A message about this row alone does not count rows.
        said = _refusal(recipe, values, first) or str(error)
        said = re.sub(r",? ?(first )?(at|in) row 0\b", "", said)
        said = re.sub(r"\bhas \d+ values\b", "has values", said)
        raise ValueError(f"{_place(partition, numbers[first])}: {said}") from None


def _place(partition: Partition, row: int) -> str:
    return f"row {partition.first + int(row):,}, in partition {partition.number}"


def _refusal(recipe: Recipe, values: Values, start: int, stop: int = 0) -> str | None:
    """Return why rows are refused, None if they are not."""
    try:
        recipe({name: found[start : stop or start + 1] for name, found in values.items()})
    except ValueError as error:
        return str(error)
    return None


def _first_bad(recipe: Recipe, values: Values, n: int) -> int | None:
    """Return the first row that is refused, by halves; None if it is no single row."""
    start, stop = 0, n
    while stop - start > 1:
        middle = (start + stop) // 2
        if _refusal(recipe, values, start, middle) is not None:
            stop = middle
        else:
            start = middle
    return start if n and _refusal(recipe, values, start) is not None else None
