"""Collapsed sums as kernels evaluate them: packed quadratics, and powers of radii."""

from typing import NamedTuple

import numpy as np
from numba import types

from pymc_flymc.kernels.layout import ARROW, HEADER, PARTS_SHARED, matrix_places, quadratic_places
from pymc_flymc.kernels.native import kernel_part, lazy_kernel, unwritten, vector


@kernel_part
def reorder(given, start, n_sparse, n_predictors, back, out):
    """Write coefficients in the order of an arrow, sparse columns last, or `back` in their own."""
    m, each, at = given.shape[0] - n_sparse, n_sparse // n_predictors, 0
    for k in range(n_predictors + 1):  # nuisance parameters come after all predictors
        is_predictor = k < n_predictors
        for j in range(k * start, (k + 1) * start if is_predictor else m):
            out[at if back else j] = given[j if back else at]
            at += 1
        for j in range(m + k * each, m + (k + 1) * each if is_predictor else 0):
            out[at if back else j] = given[j if back else at]
            at += 1


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def quadratic(u, statistics, has_header, out):
    """Return linear . u and u' A u, and write A u to `out`: each number of A is read once.

    `statistics` have the places of `quadratic_places`; the constant and the centre are not read.
    With `has_header` the parts of A come after the numbers of `Arrow`, otherwise it is dense.
    """
    n = u.shape[0]
    of = quadratic_places(n)
    linear, first = statistics[of.linear], of.curvature
    start, n_sparse, n_pairs, n_predictors = n, 0, 0, 1
    if has_header:
        start = int(statistics[first + ARROW.start])
        n_sparse = int(statistics[first + ARROW.n_sparse])
        n_pairs = int(statistics[first + ARROW.n_pairs])
        n_predictors = int(statistics[first + ARROW.n_predictors])
        first += len(ARROW)
    m = n - n_sparse
    parts = matrix_places(first, m, n_sparse, n_pairs)
    if parts.behind > statistics.shape[0]:
        raise ValueError("the statistics of a quadratic are shorter than its coefficients need")
    ordered, product = np.empty(n), np.zeros(n)
    reorder(u, start, n_sparse, n_predictors, False, ordered)
    dense_u, dense_out = ordered[:m], product[:m]
    # Row by row, each times a number: such sums are vectorised in the order in which they stand.
    place = parts.dense
    for i in range(m):
        each, row = dense_u[i], statistics[place : place + m]
        for j in range(m):
            dense_out[j] += each * row[j]
        place += m
    if n_sparse:
        sparse_u, sparse_out, place = ordered[m:], product[m:], parts.cross
        for i in range(m):
            each, total = dense_u[i], 0.0
            row = statistics[place : place + n_sparse]
            for j in range(n_sparse):
                total += row[j] * sparse_u[j]
                sparse_out[j] += each * row[j]
            dense_out[i] += total
            place += n_sparse
        for j in range(n_sparse):
            sparse_out[j] += statistics[parts.diagonal + j] * sparse_u[j]
        # The sum of a row stays in a register: the fastest way to read millions of pairs.
        lengths = statistics[parts.lengths : parts.values]
        values = statistics[parts.values : parts.columns]
        columns = statistics[parts.columns : parts.behind]
        k = 0
        for i in range(lengths.shape[0]):
            each, total = sparse_u[i], 0.0
            for _j in range(int(lengths[i])):
                j = np.uint64(columns[k])
                total += values[k] * sparse_u[j]
                sparse_out[j] += values[k] * each
                k += 1
            sparse_out[i] += total
    reorder(product, start, n_sparse, n_predictors, True, out)
    along, form = 0.0, 0.0
    for j in range(n):
        along += linear[j] * u[j]
        form += u[j] * out[j]
    return along, form


@lazy_kernel(types.UniTuple(types.float64, 2)(unwritten(), unwritten(), types.boolean, vector()))
def quadratic_kernel(u, statistics, has_header, out):
    """Call `quadratic` from Python."""
    return quadratic(u, statistics, has_header, out)


class PackedShift(NamedTuple):
    """What is packed of a common shift, one after the other.

    `lengths` (2,): of sources and targets. `sources`, `weights`, `targets`: numbers of effects. The
    weights of the sources sum to one.
    """

    lengths: np.ndarray
    sources: np.ndarray
    weights: np.ndarray
    targets: np.ndarray


class PackedEffects(NamedTuple):
    """What is packed of each effect, vectors of Q.

    `limit`, `scale`, `growth`: of its powers.
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

    `u` (P,): distance of the coefficients from the anchor. `shared` (2 + 2 Q,): the powers, in the
    places that `PARTS_SHARED` says.
    """
    q, k = int(packed[HEADER.n_effects]), int(packed[HEADER.n_predictors])
    m, ordered = u.shape[0] - q, np.empty(u.shape[0])
    reorder(u, m // k, q, k, False, ordered)
    radius = _dense_part(ordered, packed, np.empty(m))
    limit, scale, growth = packed[HEADER.limit], packed[HEADER.scale], packed[HEADER.growth]
    near, beyond = _powers(radius, limit, scale, growth)
    shared[PARTS_SHARED.near], shared[PARTS_SHARED.beyond] = near, beyond
    numbers = np.empty(q)
    each = _split(packed, _effects(ordered, packed, m, numbers), q)
    of_effects = shared[PARTS_SHARED.effects :]
    for j in range(q):
        near, beyond = _powers(abs(numbers[j]), each.limit[j], each.scale[j], each.growth[j])
        of_effects[j], of_effects[q + j] = near, beyond


@kernel_part
def radius_powers_gradient(u, packed, slope, out):
    """Write the gradient in u of ``slope`` times what is shared."""
    q, k = int(packed[HEADER.n_effects]), int(packed[HEADER.n_predictors])
    m, ordered, slopes = u.shape[0] - q, np.empty(u.shape[0]), np.zeros(u.shape[0])
    reorder(u, m // k, q, k, False, ordered)
    image = np.empty(m)
    radius = _dense_part(ordered, packed, image)
    limit, scale, growth = packed[HEADER.limit], packed[HEADER.scale], packed[HEADER.growth]
    near, beyond = slope[PARTS_SHARED.near], slope[PARTS_SHARED.beyond]
    dense = _slope(radius, limit, scale, growth, near, beyond)
    if radius > 0.0:
        for i in range(m):
            row, factor = packed[len(HEADER) + i * m :][:m], dense * image[i] / radius
            for j in range(m):
                slopes[j] += factor * row[j]
    numbers = np.empty(q)
    each = _split(packed, _effects(ordered, packed, m, numbers), q)
    of_effects = slope[PARTS_SHARED.effects :]
    for j in range(q):
        x, near, beyond = numbers[j], of_effects[j], of_effects[q + j]
        along = _slope(abs(x), each.limit[j], each.scale[j], each.growth[j], near, beyond)
        slopes[m + j] = -along if x < 0.0 else along
    _add_slopes(slopes[m:], packed, m, slopes)
    reorder(slopes, m // k, q, k, True, out)


_given = unwritten()


@lazy_kernel(types.void(_given, _given, vector()))
def radius_powers_kernel(u, packed, shared):
    """As `radius_powers`, to be called from Python."""
    radius_powers(u, packed, shared)


@lazy_kernel(types.void(_given, _given, _given, vector()))
def radius_powers_gradient_kernel(u, packed, slope, out):
    """As `radius_powers_gradient`, to be called from Python."""
    radius_powers_gradient(u, packed, slope, out)
