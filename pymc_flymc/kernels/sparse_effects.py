"""Loops over the sparse columns of rows: effects of groups as codes, and any others.

Their data are described in `rows.Rows`.
"""

from pymc_flymc.kernels.native import kernel_part


@kernel_part(inline="always")
def add_effects(rows, index, start, size, w, place, sizes, eta, k):
    """Add the rows' sparse columns (or absolute `sizes`) times w[place:] to eta[:, k], in order."""
    n_values = rows.values.shape[1]
    n_ones = rows.codes.shape[1] - n_values
    for i in range(size):
        n, total = index[start + i] - rows.first, eta[i, k]
        for j in range(n_ones):
            total += w[place + rows.codes[n, j]]
        for j in range(n_values):
            number = rows.values[n, j]
            total += (abs(number) if sizes else number) * w[place + rows.codes[n, n_ones + j]]
        if rows.indptr.shape[0] > 0:
            for j in range(rows.indptr[n], rows.indptr[n + 1]):
                number = rows.numbers[j]
                total += (abs(number) if sizes else number) * w[place + rows.indices[j]]
        eta[i, k] = total


@kernel_part(inline="always")
def add_effects_gradient(rows, index, start, size, factors, k, sizes, gradient, place):
    """Add the gradient of `add_effects` in w, times factors[:, k], to gradient[place:]."""
    n_values = rows.values.shape[1]
    n_ones = rows.codes.shape[1] - n_values
    for i in range(size):
        n, factor = index[start + i] - rows.first, factors[i, k]
        for j in range(n_ones):
            gradient[place + rows.codes[n, j]] += factor
        for j in range(n_values):
            number = abs(rows.values[n, j]) if sizes else rows.values[n, j]
            gradient[place + rows.codes[n, n_ones + j]] += factor * number
        if rows.indptr.shape[0] > 0:
            for j in range(rows.indptr[n], rows.indptr[n + 1]):
                number = abs(rows.numbers[j]) if sizes else rows.numbers[j]
                gradient[place + rows.indices[j]] += factor * number


@kernel_part
def n_effects(rows, i):
    """Return how many numbers the i-th of these rows has in sparse columns."""
    n_further = rows.indptr[i + 1] - rows.indptr[i] if rows.indptr.shape[0] > 0 else 0
    return rows.codes.shape[1] + n_further


@kernel_part
def effect_at(rows, i, j):
    """Return the column and the absolute value of the j-th of these numbers."""
    n_codes = rows.codes.shape[1]
    if j >= n_codes:
        place = rows.indptr[i] + j - n_codes
        return rows.indices[place], abs(rows.numbers[place])
    n_ones = n_codes - rows.values.shape[1]
    return rows.codes[i, j], abs(rows.values[i, j - n_ones]) if j >= n_ones else 1.0
