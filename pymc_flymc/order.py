"""Order of computed numbers that is the same on each machine: rounding errors decide nothing."""

from __future__ import annotations

import numpy as np

#: Bits of a number that count, six digits: BLAS libraries and processors differ in the last bits.
BITS = 20


def significant(values: np.ndarray) -> np.ndarray:
    """Round to the digits that count, so that numbers equal except for rounding are equal."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissa, BITS)), exponent - BITS)


def first_largest(values: np.ndarray) -> int:
    """Return the first position, in the flat array, of the largest number or of one equal to it."""
    return int(np.argmax(significant(values)))


def ascending(values: np.ndarray) -> np.ndarray:
    """Return positions in ascending order of their numbers; equal ones keep their order."""
    return np.argsort(significant(values), kind="stable")


def n_largest(values: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n largest numbers, in ascending order of the positions."""
    return np.sort(ascending(-values)[:n])
