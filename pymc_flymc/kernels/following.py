"""Effects that follow their scales: coordinates for funnels, whichever way effects are written.

Given everything else, the precision of an effect is a sum. One part is in proportion to
``exp(-2 change)``, where the change is that of the logarithm of its scale; the other is constant.
So the standard deviation changes by the factor

    f = (1 - q + q exp(-2 change))^(-1/2),

if the share q was in the first part. For centred effects this part is the prior's: with few rows
for each of them, or hardly any effect at all, they follow the scale. For effects that a scale
multiplies it is the data's, with the opposite change. The effect's mean given everything else is at
some distance from its location, which changes by the factor ``g = f^2``, and by ``g = f^2
exp(-change)`` for effects that a scale multiplies. In the coordinates x with

    theta = location + f (x - location) + distance (g - f)

effects have about the same mean and the same room for all values of their scales. So one
preconditioner and one step size suit all of them, as if each factor were written in the way that
suits it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_flymc.kernels.native import IntVector, Vector, kernel_part
from pymc_flymc.kernels.shared_scales import Locations

#: Effects follow changes of the logarithm up to this one, beyond which f could not be inverted.
LARGEST_CHANGE = 300.0


class Following(NamedTuple):
    """K sets of effects, each of which follows the same scales; E effects altogether.

    Neither scales nor terms of locations are among the effects.
    """

    first: IntVector  #: Where the effects of a set begin, (K + 1,).
    effects: IntVector  #: Indices in theta, (E,).
    share: Vector  #: q, (E,).
    distance: Vector  #: (E,).
    locations: Locations  #: (E,).
    first_scale: IntVector  #: Where the scales of a set begin, (K + 1,); each has at least one.
    scale: IntVector  #: Indices in theta of their logarithms.
    power: Vector  #: By which the logarithm changes with each of these.
    origin: Vector  #: Where the change is zero.
    multiplied: Vector  #: Whether scales multiply the effects of a set (0 or 1), (K,).

    def spread(self, x: np.ndarray) -> np.ndarray:
        """Return theta for x, shape (D,)."""
        out = x.copy()
        if len(self.effects):
            around, (f, g, _) = self.locations.at(x), self.factors(x)
            out[self.effects] = around + f * (x[self.effects] - around) + self.distance * (g - f)
        return out

    def gather(self, theta: np.ndarray) -> np.ndarray:
        """Return x for theta, the inverse of `spread`."""
        out = theta.copy()
        if len(self.effects):
            around, (f, g, _) = self.locations.at(theta), self.factors(theta)
            moved = theta[self.effects] - around - self.distance * (g - f)
            out[self.effects] = around + moved / f
        return out

    def factors(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return f and g of each effect, and the change of theta with that of scales, (E,)."""
        terms = self.power * (theta[self.scale] - self.origin)
        change, multiplied = (
            np.repeat(each, np.diff(self.first))
            for each in (np.add.reduceat(terms, self.first_scale[:-1]), self.multiplied)
        )
        change = np.clip(change, -LARGEST_CHANGE, LARGEST_CHANGE)
        moving = self.share * np.exp(-2.0 * change)
        f = 1.0 / np.sqrt(1.0 - self.share + moving)
        g, rate = f**2 * np.exp(-multiplied * change), moving * f**2
        stretched = theta[self.effects] - self.locations.at(theta) - self.distance * g
        return f, g, rate * stretched + (2.0 * rate - multiplied) * self.distance * g


_NONE, _ZERO, _EMPTY = np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0)
NO_FOLLOWING = Following(
    _ZERO, _NONE, _EMPTY, _EMPTY, Locations.zero(0), _ZERO, _NONE, _EMPTY, _EMPTY, _EMPTY
)


@kernel_part
def is_followed(following, scale):
    """Return whether effects follow a scale."""
    for t in range(following.scale.shape[0]):
        if following.scale[t] == scale:
            return True
    return False


@kernel_part
def _shrinking(following, k, theta):
    """Return ``exp(-change)`` of a set."""
    change = 0.0
    for t in range(following.first_scale[k], following.first_scale[k + 1]):
        change += following.power[t] * (theta[following.scale[t]] - following.origin[t])
    return np.exp(-min(max(change, -LARGEST_CHANGE), LARGEST_CHANGE))


@kernel_part
def location_of(locations, i, theta):
    """Return the location of effect i."""
    total = locations.offset[i]
    for t in range(locations.first[i], locations.first[i + 1]):
        total += locations.weight[t] * theta[locations.place[t]]
    return total


@kernel_part(inline="always")
def _factors(following, k, i, shrinking):
    """Return f and g of effect i, of set k."""
    share = following.share[i]
    f = 1.0 / np.sqrt(1.0 - share + share * shrinking * shrinking)
    return f, f * f * shrinking if following.multiplied[k] > 0.0 else f * f


@kernel_part
def spread_effects(following, theta):
    """Replace x by theta."""
    for k in range(following.first.shape[0] - 1):
        shrinking = _shrinking(following, k, theta)
        for i in range(following.first[k], following.first[k + 1]):
            j, around = following.effects[i], location_of(following.locations, i, theta)
            f, g = _factors(following, k, i, shrinking)
            theta[j] = around + f * (theta[j] - around) + following.distance[i] * (g - f)


@kernel_part
def gather_effects(following, theta):
    """Replace theta by x: the inverse of `spread_effects`."""
    for k in range(following.first.shape[0] - 1):
        shrinking = _shrinking(following, k, theta)
        for i in range(following.first[k], following.first[k + 1]):
            j, around = following.effects[i], location_of(following.locations, i, theta)
            f, g = _factors(following, k, i, shrinking)
            theta[j] = around + (theta[j] - around - following.distance[i] * (g - f)) / f


@kernel_part
def log_volume(following, theta):
    """Return the log of the Jacobian of theta in x."""
    total = 0.0
    for k in range(following.first.shape[0] - 1):
        shrinking = _shrinking(following, k, theta)
        for i in range(following.first[k], following.first[k + 1]):
            share = following.share[i]
            total -= 0.5 * np.log(1.0 - share + share * shrinking * shrinking)
    return total


@kernel_part
def gather_gradient(following, theta, gradient):
    """Make a gradient in theta one in x, and add that of `log_volume`."""
    for k in range(following.first.shape[0] - 1):
        shrinking, along = _shrinking(following, k, theta), 0.0
        for i in range(following.first[k], following.first[k + 1]):
            j, locations = following.effects[i], following.locations
            each = gradient[j]
            f, g = _factors(following, k, i, shrinking)
            rate = following.share[i] * (shrinking * f) ** 2  # of log f with the change
            mean = following.distance[i] * g
            stretched = theta[j] - location_of(locations, i, theta) - mean
            of_mean = (2.0 * rate - following.multiplied[k]) * mean
            along += each * (rate * stretched + of_mean) + rate
            gradient[j] = f * each
            for t in range(locations.first[i], locations.first[i + 1]):
                gradient[locations.place[t]] += (1.0 - f) * locations.weight[t] * each
        for t in range(following.first_scale[k], following.first_scale[k + 1]):
            gradient[following.scale[t]] += following.power[t] * along
