"""Limits on third derivatives at any distance, as families say them."""

import numpy as np

__all__ = ["limit_beyond"]


def limit_beyond(family, eta, away, spread, y):
    """Return what limits third derivatives so far away from eta, shape (n,)."""
    scale, rate = family.third_beyond(eta, spread, y)
    with np.errstate(all="ignore"):
        distance = np.nan_to_num(np.abs(away) / spread).max(axis=0)
        return scale * np.exp(rate * distance)
