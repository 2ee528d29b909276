"""What the rows share under a bound that has a radius for each part of a row, and its gradient.

The parts of a row are the dense columns and each of its sparse columns. Packed numbers:

========================  ======================================================================
Q, limit, scale, growth   number of sparse columns; of the dense part
near, far                 sums of the rows' constants that multiply what the dense part brings
F, shape (M, M)           the radius of the dense part at u is ``|F u[:M]|``
G, shape (M, Q)           the numbers of the effects are ``s = u[M:] + G' u[:M]``
five vectors of Q         limit, scale, growth, near and far of each effect
========================  ======================================================================

A part whose number is x, in size, brings ``x^3 scale``, and from near its limit on beside it
``(x / limit)^3 exp(growth x)``, which rows read in another place.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import types

from pymc_flymc.kernels.native import kernel, kernel_part, vector

__all__ = ["HEADER", "share_parts", "share_parts_kernel", "slope_of_parts", "slope_of_parts_kernel"]

#: Numbers in front of the packed matrices.
HEADER = 6
#: Where, as a share of its limit, what a part brings beyond it sets in. Of a jump there
#: trajectories would know nothing: those that come in from afar would hardly get across.
BEGIN = 0.8


@kernel_part
def _ramp(ratio):
    """Return a smooth step of x / limit, from 0 at BEGIN to 1 at 1, and its derivative."""
    t = min(1.0, (ratio - BEGIN) / (1.0 - BEGIN))
    return t * t * (3.0 - 2.0 * t), 6.0 * t * (1.0 - t) / (1.0 - BEGIN)


@kernel_part
def _brought(x, limit, scale, growth):
    """Return what a part brings everywhere, and beyond its limit."""
    within = x * x * x * scale
    if x <= BEGIN * limit:
        return within, 0.0
    ratio = x / limit
    return within, _ramp(ratio)[0] * ratio * ratio * ratio * np.exp(growth * x)


@kernel_part
def _slope(x, limit, scale, growth, near, far):
    """Return the derivative in x of ``near`` and ``far`` times what a part brings."""
    within = near * 3.0 * x * x * scale
    if x <= BEGIN * limit:
        return within
    ratio = x / limit
    ramp, rise = _ramp(ratio)
    relative = (rise * ratio + 3.0 * ramp) / limit + growth * ramp * ratio
    return within + far * ratio * ratio * relative * np.exp(growth * x)


@kernel_part
def _dense_part(u, packed, image):
    """Write F u of the dense columns, and return its length."""
    m, square = image.shape[0], 0.0
    for i in range(m):
        row, total = packed[HEADER + i * m : HEADER + (i + 1) * m], 0.0
        for j in range(m):
            total += row[j] * u[j]
        image[i] = total
        square += total * total
    return np.sqrt(square)


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def _effects(u, packed, m, effects):
    """Write the effects' numbers, and return where what is packed of each begins."""
    q, place = effects.shape[0], HEADER + m * m
    for j in range(q):
        effects[j] = u[m + j]
    for i in range(m):
        row, each = packed[place : place + q], u[i]
        for j in range(q):
            effects[j] += each * row[j]
        place += q
    return place


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def _add_slopes(slopes, packed, m, out):
    """Add slopes in the effects' numbers to the gradient in the dense columns' coefficients."""
    q, place = slopes.shape[0], HEADER + m * m
    for i in range(m):
        row, total = packed[place : place + q], 0.0
        for j in range(q):
            total += slopes[j] * row[j]
        out[i] += total
        place += q


@kernel_part
def share_parts(u, packed, shared):
    """Return the sum over all rows of the remainders' bounds; write what rows share.

    Parameters
    ----------
    u : ndarray, shape (P,)
        Distance of the coefficients from the anchor.
    packed : ndarray
    shared : ndarray, shape (2 + 2 Q,)
        What the dense part brings everywhere and beyond its limit, then all effects everywhere,
        then all effects beyond theirs.
    """
    q = int(packed[0])
    m = u.shape[0] - q
    radius = _dense_part(u, packed, np.empty(m))
    shared[0], shared[1] = _brought(radius, packed[1], packed[2], packed[3])
    total = packed[4] * shared[0] + packed[5] * shared[1]
    effects = np.empty(q)
    at = _effects(u, packed, m, effects)
    limit, scale, growth = packed[at : at + q], packed[at + q :], packed[at + 2 * q :]
    near, far = packed[at + 3 * q :], packed[at + 4 * q :]
    for j in range(q):
        x = abs(effects[j])
        shared[2 + j], shared[2 + q + j] = _brought(x, limit[j], scale[j], growth[j])
        total += near[j] * shared[2 + j] + far[j] * shared[2 + q + j]
    return total


@kernel_part
def slope_of_parts(u, packed, of_total, slope, out):
    """Write the gradient in u of ``of_total`` times the sum and ``slope`` times what is shared."""
    q = int(packed[0])
    m = u.shape[0] - q
    image = np.empty(m)
    radius = _dense_part(u, packed, image)
    weights = of_total * packed[4] + slope[0], of_total * packed[5] + slope[1]
    dense = _slope(radius, packed[1], packed[2], packed[3], weights[0], weights[1])
    for j in range(m):
        out[j] = 0.0
    if radius > 0.0:
        for i in range(m):
            row, each = packed[HEADER + i * m : HEADER + (i + 1) * m], dense * image[i] / radius
            for j in range(m):
                out[j] += each * row[j]
    effects = np.empty(q)
    at = _effects(u, packed, m, effects)
    limit, scale, growth = packed[at : at + q], packed[at + q :], packed[at + 2 * q :]
    near, far = packed[at + 3 * q :], packed[at + 4 * q :]
    for j in range(q):
        x = effects[j]
        inside, beyond = of_total * near[j] + slope[2 + j], of_total * far[j] + slope[2 + q + j]
        each = _slope(abs(x), limit[j], scale[j], growth[j], inside, beyond)
        if x < 0.0:
            each = -each
        out[m + j] = each
    _add_slopes(out[m:], packed, m, out)


_given = types.Array(types.float64, 1, "C", readonly=True)


@functools.cache
def share_parts_kernel() -> Any:
    """Return `share_parts`, compiled to be called from Python."""

    @kernel(types.float64(_given, _given, vector()))
    def evaluate(u, packed, shared):
        return share_parts(u, packed, shared)

    return evaluate


@functools.cache
def slope_of_parts_kernel() -> Any:
    """Return `slope_of_parts`, compiled to be called from Python."""

    @kernel(types.void(_given, _given, types.float64, _given, vector()))
    def evaluate(u, packed, of_total, slope, out):
        slope_of_parts(u, packed, of_total, slope, out)

    return evaluate
