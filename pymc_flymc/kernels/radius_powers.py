"""Powers of the radius of each part of a row, which rows share under a bound, and their gradient.

The parts of a row are the dense columns and each of its sparse columns. Packed numbers:

==================  ============================================================================
`HEADER`            number of sparse columns; limit, scale and growth of the dense part; number
                    of common shifts
F, shape (M, M)     the radius of the dense part at u is ``|F u[:M]|``
G, shape (M, Q)     the numbers of the effects are ``s = u[M:] + G' u[:M]``, less common shifts
`PackedEffects`     vectors of Q: limit, scale and growth of each effect
starts              of each shift, where it is behind the starts
`PackedShift`       each of the shifts
==================  ============================================================================

A common shift adds a number to the numbers of some effects, its sources, and takes it from others,
its targets, and changes no row's predictor. The weighted mean of the sources is moved to the
targets, for one shift after the other.

A part of radius x (of an effect, the size of its number) has the powers ``x^3 scale`` and, beyond
its limit, ``(x - limit)^3 exp(growth (x - limit)) / limit^2``. The latter has two continuous
derivatives. Trajectories would not see a jump, and conditional updates would hardly cross it.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.layout import HEADER, PARTS_SHARED
from pymc_flymc.kernels.native import kernel_part, lazy_kernel
from pymc_flymc.kernels.records import unwritten, vector


class PackedShift(NamedTuple):
    """What is packed of a common shift, one after the other.

    Attributes
    ----------
    lengths : ndarray, shape (2,)
        Of sources and targets.
    sources, weights, targets : ndarray
        Numbers of effects. The weights of the sources sum to one.
    """

    lengths: np.ndarray
    sources: np.ndarray
    weights: np.ndarray
    targets: np.ndarray


class PackedEffects(NamedTuple):
    """What is packed of each effect, vectors of Q.

    Attributes
    ----------
    limit, scale, growth : ndarray
        Of its powers.
    """

    limit: np.ndarray
    scale: np.ndarray
    growth: np.ndarray


@kernel_part
def _split(packed, at, q):
    """Return the `PackedEffects` that are packed from a place on."""
    return PackedEffects(packed[at : at + q], packed[at + q :][:q], packed[at + 2 * q :][:q])


@kernel_part
def _powers(x, limit, scale, growth):
    """Return the powers of a part, and that beyond its limit."""
    near = x * x * x * scale
    past = x - limit
    if past <= 0.0:
        return near, 0.0
    return near, past * past * past * np.exp(growth * past) / (limit * limit)


@kernel_part
def _slope(x, limit, scale, growth, near, beyond):
    """Return the derivative in x of ``near`` and ``beyond`` times the powers of a part."""
    slope = near * 3.0 * x * x * scale
    past = x - limit
    if past <= 0.0:
        return slope
    relative = (3.0 + growth * past) / (limit * limit)
    return slope + beyond * past * past * relative * np.exp(growth * past)


@kernel_part
def _dense_part(u, packed, image):
    """Write F u of the dense columns, and return its length."""
    m, square = image.shape[0], 0.0
    for i in range(m):
        row, total = packed[len(HEADER) + i * m :][:m], 0.0
        for j in range(m):
            total += row[j] * u[j]
        image[i] = total
        square += total * total
    return np.sqrt(square)


@kernel_part
def _shift(packed, m, q, i):
    """Return the `PackedShift` of a number."""
    starts = packed[len(HEADER) + m * m + m * q + 3 * q :]
    at = starts[int(packed[HEADER.n_shifts]) + int(starts[i]) :]
    n_sources, n_targets = int(at[0]), int(at[1])
    sources, weights = at[2:][:n_sources], at[2 + n_sources :][:n_sources]
    return PackedShift(at[:2], sources, weights, at[2 + 2 * n_sources :][:n_targets])


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def _effects(u, packed, m, effects):
    """Write the effects' numbers, and return where what is packed of each begins."""
    q, place = effects.shape[0], len(HEADER) + m * m
    for j in range(q):
        effects[j] = u[m + j]
    for i in range(m):
        row, each = packed[place : place + q], u[i]
        for j in range(q):
            effects[j] += each * row[j]
        place += q
    for i in range(int(packed[HEADER.n_shifts])):
        _, sources, weights, targets = _shift(packed, m, q, i)
        mean = 0.0
        for k in range(sources.shape[0]):
            mean += weights[k] * effects[int(sources[k])]
        for k in range(sources.shape[0]):
            effects[int(sources[k])] -= mean
        for k in range(targets.shape[0]):
            effects[int(targets[k])] += mean
    return place


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def _add_slopes(slopes, packed, m, out):
    """Make slopes in the effects' numbers those in the coefficients, and add the dense columns'."""
    q, place = slopes.shape[0], len(HEADER) + m * m
    for i in range(int(packed[HEADER.n_shifts]) - 1, -1, -1):
        _, sources, weights, targets = _shift(packed, m, q, i)
        along = 0.0
        for k in range(sources.shape[0]):
            along += slopes[int(sources[k])]
        for k in range(targets.shape[0]):
            along -= slopes[int(targets[k])]
        for k in range(sources.shape[0]):
            slopes[int(sources[k])] -= weights[k] * along
    for i in range(m):
        row, total = packed[place : place + q], 0.0
        for j in range(q):
            total += slopes[j] * row[j]
        out[i] += total
        place += q


@kernel_part
def radius_powers(u, packed, shared):
    """Write the powers of each part's radius, which rows share.

    Parameters
    ----------
    u : ndarray, shape (P,)
        Distance of the coefficients from the anchor.
    packed : ndarray
    shared : ndarray, shape (2 + 2 Q,)
        The powers, in the places that `PARTS_SHARED` says.
    """
    q = int(packed[HEADER.n_sparse])
    m = u.shape[0] - q
    radius = _dense_part(u, packed, np.empty(m))
    limit, scale, growth = packed[HEADER.limit], packed[HEADER.scale], packed[HEADER.growth]
    near, beyond = _powers(radius, limit, scale, growth)
    shared[PARTS_SHARED.near], shared[PARTS_SHARED.beyond] = near, beyond
    numbers = np.empty(q)
    each = _split(packed, _effects(u, packed, m, numbers), q)
    of_effects = shared[PARTS_SHARED.effects :]
    for j in range(q):
        near, beyond = _powers(abs(numbers[j]), each.limit[j], each.scale[j], each.growth[j])
        of_effects[j], of_effects[q + j] = near, beyond


@kernel_part
def radius_powers_gradient(u, packed, slope, out):
    """Write the gradient in u of ``slope`` times what is shared."""
    q = int(packed[HEADER.n_sparse])
    m = u.shape[0] - q
    image = np.empty(m)
    radius = _dense_part(u, packed, image)
    limit, scale, growth = packed[HEADER.limit], packed[HEADER.scale], packed[HEADER.growth]
    near, beyond = slope[PARTS_SHARED.near], slope[PARTS_SHARED.beyond]
    dense = _slope(radius, limit, scale, growth, near, beyond)
    for j in range(m):
        out[j] = 0.0
    if radius > 0.0:
        for i in range(m):
            row, factor = packed[len(HEADER) + i * m :][:m], dense * image[i] / radius
            for j in range(m):
                out[j] += factor * row[j]
    numbers = np.empty(q)
    each = _split(packed, _effects(u, packed, m, numbers), q)
    of_effects = slope[PARTS_SHARED.effects :]
    for j in range(q):
        x, near, beyond = numbers[j], of_effects[j], of_effects[q + j]
        along = _slope(abs(x), each.limit[j], each.scale[j], each.growth[j], near, beyond)
        out[m + j] = -along if x < 0.0 else along
    _add_slopes(out[m:], packed, m, out)


_given = unwritten()


@lazy_kernel(types.void(_given, _given, vector()))
def radius_powers_kernel(u, packed, shared):
    """As `radius_powers`, to be called from Python."""
    radius_powers(u, packed, shared)


@lazy_kernel(types.void(_given, _given, _given, vector()))
def radius_powers_gradient_kernel(u, packed, slope, out):
    """As `radius_powers_gradient`, to be called from Python."""
    radius_powers_gradient(u, packed, slope, out)
