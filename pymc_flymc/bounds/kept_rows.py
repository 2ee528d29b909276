"""Rows without a bound, kept bright or treated exactly, and the smallest rates of all others."""

import numpy as np

from pymc_flymc.kernels.dark_rates import FLOOR
from pymc_flymc.kernels.layout import ROW


def keep_bright(constants: np.ndarray, bright: np.ndarray, keep: float) -> None:
    """Keep rows bright, in place, and raise small multipliers in the rates of others to `FLOOR`.

    Parameters
    ----------
    constants : ndarray, shape (N, R)
        In the places of `ROW` or `PARTS_ROW`.
    bright : ndarray, shape (N,)
        Expected probabilities of being bright.
    keep : float
        Rows with a larger probability are kept bright.
    """
    rows = bright > keep
    for column in (ROW.near, ROW.beyond):
        constants[rows, column] = 0.0
        multipliers = constants[:, column]
        # A larger rate gives a valid bound, too.
        floor = FLOOR * multipliers.sum()
        multipliers[(multipliers > 0.0) & (multipliers < floor)] = floor
    constants[rows, ROW.near] = np.inf
    bright[rows] = 1.0


def treat_exactly(constants: np.ndarray, bright: np.ndarray, rows: np.ndarray) -> None:
    """Set rates of rows to zero, in place, for kernels that read these rows at each step.

    A bound's `gap` is then the remainder of their expansion, of either sign. Arguments are those of
    `keep_bright`, and the numbers of the rows.
    """
    constants[np.ix_(rows, [ROW.near, ROW.beyond])] = 0.0
    bright[rows] = 0.0
