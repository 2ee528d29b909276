"""Scales, and the effects that share them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.native import IntVector, Vector

#: Powers of a scale: of effects that are as large as the scale, and of effects that it multiplies.
CENTRED, NON_CENTRED = 1.0, -1.0


class Locations(NamedTuple):
    """Location of each of E effects: a number plus a weighted sum of other elements of theta."""

    offset: Vector  #: Shape (E,).
    first: IntVector  #: Where the terms of an effect begin, (E + 1,).
    #: Index in theta of each term, (T,), neither the scale nor one of its effects.
    place: IntVector
    weight: Vector  #: Shape (T,).

    @classmethod
    def zero(cls, n: int) -> Locations:
        """Return the locations of effects that are around zero."""
        return cls(np.zeros(n), np.zeros(n + 1, np.int64), _NONE, np.zeros(0))

    def at(self, theta: np.ndarray) -> np.ndarray:
        """Return the locations, (E,)."""
        rows = np.repeat(np.arange(len(self.offset)), np.diff(self.first))
        terms = self.weight * theta[self.place]
        return self.offset + np.bincount(rows, terms, minlength=len(self.offset))


class SharedScales(NamedTuple):
    """Indices in theta of K scales, in logarithms, and of the effects of each."""

    scale: IntVector  #: Shape (K,). A scale may occur again, with effects of another kind.
    first: IntVector  #: Where the effects of a scale begin among all of them, (K + 1,).
    effects: IntVector  #: Shape (E,).
    locations: Locations
    #: An effect is multiplied by this power of exp(change of the scale's logarithm), (E,):
    #: `CENTRED` or `NON_CENTRED` for scales themselves, another one for, say, a precision.
    power: Vector

    @property
    def moved(self) -> np.ndarray:
        """Return indices in theta whose smallest values moves of scales lead away from."""
        # With centred effects these are the scales alone: effects are small for other reasons.
        return np.concatenate([self.scale, self.effects[self.power == NON_CENTRED]])

    @property
    def n_reading(self) -> int:
        """Return the number of scales whose moves change coefficients, so that rows are read."""
        sets = zip(self.first[:-1], self.first[1:], strict=True)
        return sum(bool(np.any(self.power[i:j] != NON_CENTRED)) for i, j in sets)

    @classmethod
    def joined(cls, sets: Sequence[SharedScales]) -> SharedScales:
        """Return the scales of all sets, one after the other."""
        locations = [each.locations for each in sets]
        return cls(
            scale=np.concatenate([each.scale for each in sets]),
            first=_joined_rows([each.first for each in sets]),
            effects=np.concatenate([each.effects for each in sets]),
            locations=Locations(
                offset=np.concatenate([each.offset for each in locations]),
                first=_joined_rows([each.first for each in locations]),
                place=np.concatenate([each.place for each in locations]),
                weight=np.concatenate([each.weight for each in locations]),
            ),
            power=np.concatenate([each.power for each in sets]),
        )


def _joined_rows(firsts: Sequence[np.ndarray]) -> np.ndarray:
    """Return where rows of several lists begin if these are concatenated."""
    lengths = np.concatenate([np.diff(first) for first in firsts])
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


_NONE = np.zeros(0, np.int64)
NO_SCALES = SharedScales(_NONE, np.zeros(1, np.int64), _NONE, Locations.zero(0), np.zeros(0))
