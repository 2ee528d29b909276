"""An even choice among many: of parameters, rows or draws."""

import numpy as np


def evenly(n: int, most: int) -> np.ndarray:
    """Return numbers from 0 to n - 1: all of them, or an even choice."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
