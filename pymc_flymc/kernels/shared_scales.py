"""Scales, and the effects that share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.records import IntVector, Vector

__all__ = ["CENTRED", "NON_CENTRED", "NO_CENTRE", "NO_SCALES", "SharedScales"]

#: For effects around zero.
NO_CENTRE = -1
#: Powers of a scale: of effects that are as large as it, and of those that it multiplies.
CENTRED, NON_CENTRED = 1.0, -1.0


class SharedScales(NamedTuple):
    """Places in theta of K scales, in logarithms, and of the effects of each.

    Attributes
    ----------
    scale : ndarray, shape (K,), int64
        The same one may be there again, with effects of another kind.
    first : ndarray, shape (K + 1,), int64
        Where the effects of a scale begin among all of them.
    effects : ndarray, shape (E,), int64
    centre : ndarray, shape (E,), int64
        Of each effect's location, or `NO_CENTRE`. It is no effect of the same scale, nor the scale.
    power : ndarray, shape (E,)
        Of exp(change of the scale's logarithm) by which an effect is multiplied: `CENTRED` and
        `NON_CENTRED` for scales themselves, another one for, say, a precision.
    """

    scale: IntVector
    first: IntVector
    effects: IntVector
    centre: IntVector
    power: Vector

    @property
    def moved(self) -> np.ndarray:
        """Places in theta that moves of scales lead away from where these are smallest.

        Of centred effects it is the scales alone: effects are small for other reasons.
        """
        return np.concatenate([self.scale, self.effects[self.power == NON_CENTRED]])

    @classmethod
    def joined(cls, sets: Sequence[SharedScales]) -> SharedScales:
        """Return the scales of all sets, one after the other."""
        lengths = np.concatenate([np.diff(each.first) for each in sets])
        return cls(
            scale=np.concatenate([each.scale for each in sets]),
            first=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            effects=np.concatenate([each.effects for each in sets]),
            centre=np.concatenate([each.centre for each in sets]),
            power=np.concatenate([each.power for each in sets]),
        )


_NONE = np.zeros(0, np.int64)
NO_SCALES = SharedScales(_NONE, np.zeros(1, np.int64), _NONE, _NONE, np.zeros(0))
