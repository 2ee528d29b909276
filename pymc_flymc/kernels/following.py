"""Effects that follow their scales: coordinates for funnels, whichever way effects are written.

Given everything else, the precision of an effect is a sum. One part is in proportion to
``exp(-2 change)``, where the change is that of the logarithm of its scale; the other is constant.
So the standard deviation changes by the factor

    f = (1 - q + q exp(-2 change))^(-1/2),

if the share q was in the first part. For centred effects this part is the prior's: with few rows
for each of them, or hardly any effect at all, they follow the scale. For effects that a scale
multiplies it is the data's, with the opposite change. In the coordinates x with

    theta = location + f (x - location)

effects have about the same room for all values of their scales. So one preconditioner and one step
size suit all of them, as if each factor were written in the way that suits it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.native import IntVector, Vector, kernel_part
from pymc_flymc.kernels.shared_scales import Locations


class Following(NamedTuple):
    """K sets of effects, each of which follows the same scales; E effects altogether.

    Neither scales nor terms of locations are among the effects.
    """

    first: IntVector  #: Where the effects of a set begin, (K + 1,).
    effects: IntVector  #: Indices in theta, (E,).
    share: Vector  #: q, (E,).
    locations: Locations  #: (E,).
    first_scale: IntVector  #: Where the scales of a set begin, (K + 1,); each has at least one.
    scale: IntVector  #: Indices in theta of their logarithms.
    power: Vector  #: By which the logarithm changes with each of these.
    origin: Vector  #: Where the change is zero.

    def spread(self, x: np.ndarray) -> np.ndarray:
        """Return theta for x, shape (D,)."""
        return self._stretched(x, self.growth(x)[0])

    def gather(self, theta: np.ndarray) -> np.ndarray:
        """Return x for theta, the inverse of `spread`."""
        return self._stretched(theta, 1.0 / self.growth(theta)[0])

    def _stretched(self, theta: np.ndarray, factor: np.ndarray) -> np.ndarray:
        if not len(self.effects):
            return theta
        out, around = theta.copy(), self.locations.at(theta)
        out[self.effects] = around + factor * (theta[self.effects] - around)
        return out

    def growth(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f of each effect, and the derivative of its logarithm in the change, (E,)."""
        if not len(self.effects):
            return np.ones(0), np.zeros(0)
        terms = self.power * (theta[self.scale] - self.origin)
        changes = np.add.reduceat(terms, self.first_scale[:-1])
        moving = self.share * np.exp(-2.0 * np.repeat(changes, np.diff(self.first)))
        total = 1.0 - self.share + moving
        return 1.0 / np.sqrt(total), moving / total


_NONE, _ZERO = np.zeros(0, np.int64), np.zeros(1, np.int64)
NO_FOLLOWING = Following(
    _ZERO, _NONE, np.zeros(0), Locations.zero(0), _ZERO, _NONE, np.zeros(0), np.zeros(0)
)


@kernel_part
def _moving(following, k, theta):
    """Return ``exp(-2 change)`` of a set."""
    change = 0.0
    for t in range(following.first_scale[k], following.first_scale[k + 1]):
        change += following.power[t] * (theta[following.scale[t]] - following.origin[t])
    return np.exp(-2.0 * change)


@kernel_part
def location_of(locations, i, theta):
    """Return the location of effect i."""
    total = locations.offset[i]
    for t in range(locations.first[i], locations.first[i + 1]):
        total += locations.weight[t] * theta[locations.place[t]]
    return total


@kernel_part
def spread_effects(following, theta):
    """Replace x by theta."""
    for k in range(following.first.shape[0] - 1):
        moving = _moving(following, k, theta)
        for i in range(following.first[k], following.first[k + 1]):
            j, share = following.effects[i], following.share[i]
            around = location_of(following.locations, i, theta)
            theta[j] = around + (theta[j] - around) / np.sqrt(1.0 - share + share * moving)


@kernel_part
def gather_effects(following, theta):
    """Replace theta by x: the inverse of `spread_effects`."""
    for k in range(following.first.shape[0] - 1):
        moving = _moving(following, k, theta)
        for i in range(following.first[k], following.first[k + 1]):
            j, share = following.effects[i], following.share[i]
            around = location_of(following.locations, i, theta)
            theta[j] = around + (theta[j] - around) * np.sqrt(1.0 - share + share * moving)


@kernel_part
def log_volume(following, theta):
    """Return the log of the Jacobian of theta in x."""
    total = 0.0
    for k in range(following.first.shape[0] - 1):
        moving = _moving(following, k, theta)
        for i in range(following.first[k], following.first[k + 1]):
            share = following.share[i]
            total -= 0.5 * np.log(1.0 - share + share * moving)
    return total


@kernel_part
def gather_gradient(following, theta, gradient):
    """Make a gradient in theta one in x, and add that of `log_volume`."""
    for k in range(following.first.shape[0] - 1):
        moving, along = _moving(following, k, theta), 0.0
        for i in range(following.first[k], following.first[k + 1]):
            j, share, locations = following.effects[i], following.share[i], following.locations
            total, each = 1.0 - share + share * moving, gradient[j]
            factor = 1.0 / np.sqrt(total)
            distance = theta[j] - location_of(locations, i, theta)
            along += share * moving / total * (each * distance + 1.0)
            gradient[j] = factor * each
            for t in range(locations.first[i], locations.first[i + 1]):
                gradient[locations.place[t]] += (1.0 - factor) * locations.weight[t] * each
        for t in range(following.first_scale[k], following.first_scale[k + 1]):
            gradient[following.scale[t]] += following.power[t] * along
