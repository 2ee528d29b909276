"""Records of draws as bytes."""

import struct
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

import numpy as np

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
