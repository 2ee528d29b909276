"""Quadratics from packed coefficients, the terms of collapsed sums."""

import numpy as np
from numba import types

from pymc_flymc.kernels.layout import ARROW, matrix_places, quadratic_places
from pymc_flymc.kernels.native import kernel_part, lazy_kernel
from pymc_flymc.kernels.records import unwritten, vector


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def quadratic(u, statistics, has_header, out):
    """Return linear . u and u' A u, and write A u to `out`: each number of A is read once.

    `statistics` have the places of `quadratic_places`; the constant and the centre are not read.
    With `has_header` the parts of A come after the numbers of `Arrow`, otherwise it is dense.
    """
    n = u.shape[0]
    of = quadratic_places(n)
    linear, first = statistics[of.linear], of.curvature
    start, n_sparse, n_pairs = n, 0, 0
    if has_header:
        start = int(statistics[first + ARROW.start])
        n_sparse = int(statistics[first + ARROW.n_sparse])
        n_pairs = int(statistics[first + ARROW.n_pairs])
        first += len(ARROW)
    m, stop = n - n_sparse, start + n_sparse
    parts = matrix_places(first, m, n_sparse, n_pairs)
    if parts.behind > statistics.shape[0]:
        raise ValueError("the statistics of a quadratic are shorter than its coefficients need")
    for j in range(n):
        out[j] = 0.0
    # Row by row, each times a number: such sums are vectorised in the order in which they stand.
    before, behind, place = out[:start], out[stop:], parts.dense
    for i in range(m):
        each = u[i] if i < start else u[i + n_sparse]
        left, right = statistics[place : place + start], statistics[place + start : place + m]
        for j in range(start):
            before[j] += each * left[j]
        for j in range(m - start):
            behind[j] += each * right[j]
        place += m
    if n_sparse:
        sparse_u, sparse_out, place = u[start:stop], out[start:stop], parts.cross
        for i in range(m):
            at = i if i < start else i + n_sparse
            each, total = u[at], 0.0
            row = statistics[place : place + n_sparse]
            for j in range(n_sparse):
                total += row[j] * sparse_u[j]
                sparse_out[j] += each * row[j]
            out[at] += total
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
    along, form = 0.0, 0.0
    for j in range(n):
        along += linear[j] * u[j]
        form += u[j] * out[j]
    return along, form


@lazy_kernel(types.UniTuple(types.float64, 2)(unwritten(), unwritten(), types.boolean, vector()))
def quadratic_kernel(u, statistics, has_header, out):
    """Call `quadratic` from Python."""
    return quadratic(u, statistics, has_header, out)
