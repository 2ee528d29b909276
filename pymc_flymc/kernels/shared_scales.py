"""Scales, and the effects that share them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.records import IntVector

__all__ = ["NO_CENTRE", "NO_SCALES", "SharedScales"]

#: For effects around zero.
NO_CENTRE = -1


class SharedScales(NamedTuple):
    """Places in theta of K scales, in logarithms, and of the effects of each.

    Attributes
    ----------
    scale : ndarray, shape (K,), int64
    first : ndarray, shape (K + 1,), int64
        Where the effects of a scale begin among all of them.
    effects : ndarray, shape (E,), int64
    centre : ndarray, shape (E,), int64
        Of each effect's location, or `NO_CENTRE`. It is no effect of the same scale.
    """

    scale: IntVector
    first: IntVector
    effects: IntVector
    centre: IntVector


NO_SCALES = SharedScales(*(np.zeros(n, np.int64) for n in (0, 1, 0, 0)))
