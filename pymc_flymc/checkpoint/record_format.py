"""Draws as bytes."""

import struct
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

#: How `struct` calls integers, floating-point numbers and truth values, by NumPy's kinds.
_KINDS = {"i": "q", "f": "d", "b": "?"}


class RecordFormat:
    """The form in which a draw is recorded: what it came from, its statistics, its parameters.

    Parameters
    ----------
    n_parameters : int
        D
    statistics : mapping
        NumPy types by names of a step's statistics. Those that are objects are not recorded.

    Attributes
    ----------
    values : callable
        Returns of a mapping of statistics those that are recorded, in their order.
    size : int
        Bytes of a record.
    """

    def __init__(self, n_parameters: int, statistics: Mapping[str, Any]) -> None:
        kinds = {name: np.dtype(dtype).kind for name, dtype in statistics.items()}
        self._names = [name for name, kind in kinds.items() if kind in _KINDS]
        self.values = itemgetter(*self._names)
        self._numbers = struct.Struct("<I" + "".join(_KINDS[kinds[n]] for n in self._names))
        self.size = self._numbers.size + 8 * n_parameters

    def pack(self, origin: int, theta: bytes, values: Iterable[Any]) -> bytes:
        """Return the bytes of a draw.

        Parameters
        ----------
        origin : int
            A checksum of the point that it starts from.
        theta : bytes
            Of D numbers, float64.
        values : iterable
            What `values` returns of its statistics.
        """
        return self._numbers.pack(origin, *values) + theta

    def unpack(self, record: bytes) -> tuple[int, np.ndarray, dict[str, Any]]:
        """Return what was packed."""
        origin, *numbers = self._numbers.unpack_from(record)
        theta = np.frombuffer(record, np.float64, offset=self._numbers.size)
        return origin, theta, dict(zip(self._names, numbers, strict=True))
