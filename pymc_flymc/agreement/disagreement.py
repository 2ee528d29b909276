"""Whether two log densities change by the same from point to point."""

from collections.abc import Callable

import numpy as np

from pymc_flymc.agreement.rounding import DRAWS, Values
from pymc_flymc.order import first_largest
from pymc_flymc.reporting import log

#: A difference is looked at more closely, relative to both values, where it is larger than this.
TOLERANCE = 1e-10
#: The log-likelihood of a row below which a probability may be rounded to zero.
UNDERFLOW = -500.0


def disagreement(own: Values, expected: Values) -> tuple[int, int, int] | None:
    """Return where changes of two log densities differ: a point, another point, and a row.

    The densities may differ by a constant for each row.
    """
    known = np.isfinite(own.values) & np.isfinite(expected.values)
    errors = own.errors + expected.errors
    with np.errstate(invalid="ignore"):
        errors = errors + TOLERANCE * (1.0 + np.abs(own.values) + np.abs(expected.values))
        difference = np.where(known, own.values - expected.values, 0.0)
    errors = np.where(known, errors, np.inf)
    base, columns = np.argmin(errors, axis=0), np.arange(errors.shape[1])
    with np.errstate(invalid="ignore"):
        excess = np.abs(difference - difference[base, columns]) / (errors + errors[base, columns])
    excess = np.nan_to_num(excess)  # of infinite errors
    # Values that are impossible under one density, and not under the other.
    for a, b in ((own, expected), (expected, own)):
        impossible = np.isneginf(a.values) & (a.errors == 0.0) & (b.values > UNDERFLOW)
        excess = np.where(impossible & np.isfinite(b.errors), np.inf, excess)
    if not excess.size or excess.max() <= 1.0:
        return None
    t, i = np.unravel_index(first_largest(excess), excess.shape)
    return int(t), int(base[i]), int(i)


def confirmed_disagreement(
    evaluate: Callable[[int], tuple[Values, Values]], failure: str
) -> tuple[Values, Values, tuple[int, int, int]] | None:
    """Return both log densities and where they disagree, if rounding errors confirm it.

    `evaluate` returns both for a number of draws of rounding errors; `failure` says in the log that
    there are no two points at which both are known, of all or of some rows.
    """
    own, expected = evaluate(0)
    found = disagreement(own, expected)
    if found is not None:
        own, expected = evaluate(DRAWS)
        found = disagreement(own, expected)
    if found is not None:
        return own, expected, found
    finite = np.isfinite(own.values) & np.isfinite(expected.values)
    compared = (finite | (own.values == expected.values)) & np.isfinite(
        own.errors + expected.errors
    )
    unknown, m = int((compared.sum(axis=0) < 2).sum()), compared.shape[1]
    if unknown:
        where = "" if unknown == m else f" in {unknown:,} of {m:,} rows"
        log.warning(f"{failure}: there are no two points at which both can be evaluated{where}")
    return None
