"""Log densities at some points with their rounding errors, and whether two of them agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.order import first_largest

#: Numbers, and their rounding errors.
Rounded = tuple[np.ndarray, np.ndarray]
#: Rounding error of sums that are not computed in a graph, relative to the absolute sums.
SUM_ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
#: Number of draws of rounding errors: for any comparison, and for one that has found a difference.
FEW, MANY = 3, 30
#: The log-likelihood of a row below which a probability may be rounded to zero.
UNDERFLOW = -500.0


class NotKnownError(Exception):
    """A log density, or a part of it, is not known to a digit at any two points."""

    def __init__(self, unknown: int, of: int) -> None:
        where = "" if unknown == of else f" in {unknown:,} of {of:,} rows"
        super().__init__(f"there are no two points at which both can be evaluated{where}")


@dataclass(frozen=True)
class Values:
    """Numbers at T points, with rounding errors, both (T, m): infinite if a value is not known."""

    values: np.ndarray
    errors: np.ndarray

    @classmethod
    def stack(cls, found: Sequence[Rounded | None], m: int = 1) -> Values:
        """Stack the values that are known at each point: one for each of m rows, or one for all."""
        nothing = np.array(np.nan), np.array(np.inf)
        pairs = [nothing if each is None else each for each in found]
        arrays = [
            np.stack([np.broadcast_to(np.ravel(pair[i]), (m,)) for pair in pairs]) for i in (0, 1)
        ]
        return cls(*(array.astype(np.float64) for array in arrays))

    def __add__(self, other: Values) -> Values:
        """Add values, and their errors."""
        return Values(self.values + other.values, self.errors + other.errors)

    def __neg__(self) -> Values:
        """Change the signs of values."""
        return Values(-self.values, self.errors)

    def at(self, points: slice) -> Values:
        """Return values at some of the points."""
        return Values(self.values[points], self.errors[points])

    def sums(self) -> Values:
        """Return sums over all rows, shape (T, 1)."""
        return Values(*(each.sum(axis=1, keepdims=True) for each in (self.values, self.errors)))

    def spread(self, rows: np.ndarray, m: int) -> Values:
        """Return values of m rows: sums of the values that `rows` assigns to each."""
        arrays = [
            np.stack([np.bincount(rows, each, m) for each in array])
            for array in (self.values, self.errors)
        ]
        return Values(*arrays)


def disagreement(own: Values, expected: Values) -> tuple[int, int, int] | None:
    """Return where changes of two log densities differ: point, base and row; or None."""
    # The densities may differ by a constant for each row.
    errors = own.errors + expected.errors
    errors = errors + SUM_ROUNDING * (1.0 + np.abs(own.values) + np.abs(expected.values))
    known = np.isfinite(own.values) & np.isfinite(expected.values)
    with np.errstate(invalid="ignore"):
        difference = np.where(known, own.values - expected.values, 0.0)
    errors = np.where(known, errors, np.inf)
    base = np.argmin(errors, axis=0)
    columns = np.arange(errors.shape[1])
    with np.errstate(invalid="ignore"):
        excess = np.abs(difference - difference[base, columns]) / (errors + errors[base, columns])
    excess = np.nan_to_num(excess)  # infinite errors give NaN
    # Values may be impossible under one density, and possible under the other.
    for a, b in ((own, expected), (expected, own)):
        impossible = np.isneginf(a.values) & (a.errors == 0.0) & (b.values > UNDERFLOW)
        excess = np.where(impossible & np.isfinite(b.errors), np.inf, excess)
    if not excess.size or excess.max() <= 1.0:
        return None
    t, i = np.unravel_index(first_largest(excess), excess.shape)
    return int(t), int(base[i]), int(i)


def _are_compared(own: Values, expected: Values) -> np.ndarray:
    """Return which numbers are known to some digit on both sides, or impossible on both."""
    finite = np.isfinite(own.values) & np.isfinite(expected.values)
    found = np.isfinite(own.errors + expected.errors)
    return np.asarray(found & (finite | (own.values == expected.values)))


#: Evaluates a part of the log density, as a step has it and as it should be, with a given number of
#: draws of rounding errors.
Evaluate = Callable[[int], tuple[Values, Values]]


def confirmed_disagreement(
    evaluate: Evaluate,
) -> tuple[Values, Values, tuple[int, int, int]] | None:
    """Return both log densities and where they disagree, if many rounding errors confirm it.

    Few errors are drawn first, which suffice if there is no disagreement. `NotKnownError` is raised
    if what was compared agrees, but all values, or those of some rows, are known at fewer than two
    points: then these were not compared.
    """
    own, expected = evaluate(FEW)
    known = _are_compared(own, expected).sum(axis=0)
    found = disagreement(own, expected)
    if found is not None:
        own, expected = evaluate(MANY)
        found = disagreement(own, expected)
    if found is None and (known < 2).any():
        raise NotKnownError(int((known < 2).sum()), len(known))
    return None if found is None else (own, expected, found)
