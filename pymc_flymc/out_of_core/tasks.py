"""What the workers of a cluster do: load rows, and work on them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import numpy as np

from pymc_flymc.out_of_core.checks import check_rows
from pymc_flymc.out_of_core.columns import ArrayColumn
from pymc_flymc.out_of_core.source import Partition

__all__ = ["Shared", "load", "run"]

_turn = threading.Lock()


class Shared:
    """A function that travels as bytes, and is unpickled once by each worker that has them.

    What is compiled for it is compiled once, too, and not where a worker talks to others.
    """

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._work: Callable[..., Any] | None = None

    def work(self) -> Callable[..., Any]:
        """Return the function."""
        with _turn:
            if self._work is None:
                self._work = cloudpickle.loads(self._blob)
            assert self._work is not None
            return self._work

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self._blob,)


def load(
    number: int, rows: range, shapes: Mapping[str, tuple[int, ...]], *blocks: np.ndarray
) -> Partition:
    """Put blocks of the same rows together."""
    columns, digest = {}, hashlib.blake2b(digest_size=16)
    for (name, row), block in zip(shapes.items(), blocks, strict=True):
        checked = check_rows(block, name, (len(rows), *row), f"partition {number}")
        values = np.ascontiguousarray(checked)
        digest.update(repr((values.dtype.str, values.shape)).encode())
        digest.update(values.reshape(-1).view(np.uint8))
        columns[name] = ArrayColumn(values)
    return Partition(number, rows.start, len(rows), columns, digest=digest.digest())


def run(partition: Partition, digest: bytes, shared: Shared, *arguments: Any) -> Any:
    """Work on a partition, if its rows are those of which a digest was taken.

    Raises
    ------
    ValueError
        If they are not.
    """
    if partition.digest != digest:
        raise ValueError(
            f"the rows of partition {partition.number} were lost and read again, and have changed "
            "meanwhile: sample again, once nobody writes to them"
        )
    return shared.work()(partition, *arguments)
