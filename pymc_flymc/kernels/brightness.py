"""The set of bright rows, with constant-time updates."""

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.native import Int32Vector, IntVector, Vector, kernel_part


class BrightSet(NamedTuple):
    """Which rows are bright (Maclaurin & Adams 2014, section 3.3 and figure 3).

    The paper keeps the indices of all N rows in one array, bright ones first, and a table of their
    places. The dark part of that array is never needed here (sweeps skip over indices and pass over
    the bright ones), so only the bright part is kept: memory is touched in proportion to the
    rows that were ever bright, and a chain starts without an O(N) fill.

    The bright rows are index[:count[0]], in arbitrary order; slot[n] is 0 for a dark row, else 1 +
    its place in `index`. log_factor[i] is the contribution of row index[i] to the log of the
    augmented density at the current parameters: log(L_n/B_n - 1), or log(L_n - B_n) - log E_n under
    a bound with rates. All but `count`, (1,), are (N,).
    """

    index: Int32Vector  # type: ignore[assignment]  # hides tuple.index, never wanted here
    slot: Int32Vector
    count: IntVector  # type: ignore[assignment]
    log_factor: Vector


def make_bright_set(n_rows: int) -> BrightSet:
    """Return a set without bright rows. The system commits memory page by page as it is touched."""
    return BrightSet(
        np.empty(n_rows, np.int32),
        np.zeros(n_rows, np.int32),
        np.zeros(1, np.int64),
        np.empty(n_rows),
    )


@kernel_part
def is_bright(bright, n):
    """Return whether row n is bright."""
    return bright.slot[n] != 0


@kernel_part
def brighten(bright, n, log_factor):
    """Make the dark row n bright, with its `log_factor` at the current parameters."""
    i = bright.count[0]
    bright.index[i] = n
    bright.log_factor[i] = log_factor
    bright.slot[n] = i + 1
    bright.count[0] = i + 1


@kernel_part
def darken(bright, i):
    """Make the i-th bright row dark. The last bright row takes its place."""
    last = bright.count[0] - 1
    bright.slot[bright.index[i]] = 0
    if i != last:
        moved = bright.index[last]
        bright.index[i] = moved
        bright.log_factor[i] = bright.log_factor[last]
        bright.slot[moved] = i + 1
    bright.count[0] = last
