"""The rows of the data as kernels see them: predictors, and the gradients of these."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from pymc_flymc.kernels.layout import PARTS_SHARED, place_of_weight
from pymc_flymc.kernels.native import (
    IntVector,
    Vector,
    kernel_part,
    read_only,
    record_type,
    unwritten,
)


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


@kernel_part
def weight_of_effects(rows, i, k):
    """Return the weight of the powers of effects on predictor k in the rate of the i-th row."""
    if k == 0:
        return 1.0
    return rows.constants[i, place_of_weight(rows.constants.shape[1], rows.offset.shape[1], k)]


#: Number of sums of a row for each predictor under a bound in parts: of powers, and of powers
#: beyond limits.
SUMS = 2


# Data are shared between chains and may be a read-only map: kernels promise not to write.
Numbers = Annotated[np.ndarray, unwritten(ndim=2)]


def _design(dtype: np.dtype, n_likelihoods: int = 1) -> types.Type:
    return unwritten(from_dtype(dtype), 2)


class Rows(NamedTuple):
    """The data as a kernel sees them: N rows with K predictors."""

    X: Annotated[np.ndarray, _design]  #: Dense part of the design, (N, P), float64 or float32.
    offset: Numbers  #: Shape (N, K) or (0, K).
    intercept: int  #: 1 if each predictor has a further coefficient that multiplies one, else 0.
    constants: Numbers  #: What the row's bound needs to know in addition to its predictor, (N, R).
    #: Number of sparse columns, Q: coefficients of each predictor after all others.
    n_sparse: int = 0
    #: Sparse columns of each row, (N, J): the last V with its values, the others with ones.
    codes: Annotated[np.ndarray, unwritten(types.int32, 2)] = read_only(np.empty((0, 0), np.int32))
    values: Numbers = read_only(np.empty((0, 0)))  #: Shape (N, V).
    #: Further sparse columns: row n has ``numbers[indptr[n]:indptr[n + 1]]`` in the columns
    #: ``indices[...]``. Empty if there are none.
    indptr: Annotated[np.ndarray, unwritten(types.int64)] = read_only(np.empty(0, np.int64))
    indices: Annotated[np.ndarray, unwritten(types.int32)] = read_only(np.empty(0, np.int32))
    numbers: Annotated[np.ndarray, unwritten()] = read_only(np.empty(0))
    first: int = 0  #: Index of the first row: other likelihoods' rows may come before these.
    #: Number of sums over a row's sparse columns that follow its K predictors: 0 or `SUMS` K. They
    #: are of the powers that `PARTS_SHARED` calls effects, those on each predictor in turn, and of
    #: the powers beyond limits, each times the absolute value of the row's number in the column.
    n_sums: int = 0
    #: Number of nuisance parameters, after the coefficients of the predictors.
    n_nuisances: int = 0
    #: Sum over all rows of the multipliers of each shared power in their rates, (S, 2), as a sum of
    #: two numbers, see `dark_rates`. Empty if the bound has no rates.
    totals: Numbers = read_only(np.empty((0, 2)))


def _parts(dtype: np.dtype, n_likelihoods: int) -> types.Type:
    return types.UniTuple(record_type(Rows, dtype), n_likelihoods)


class SeveralRows(NamedTuple):
    """The data of several likelihoods, their rows numbered one likelihood after the other."""

    parts: Annotated[tuple[Rows, ...], _parts]
    #: Where the coefficients of each likelihood begin, (L + 1,). What its rows share follows them.
    place: IntVector


class RowsOfColumns(NamedTuple):
    """Which rows have which sparse columns, under a bound in parts; empty if no kernel asks."""

    first: IntVector  #: Where the rows of a column begin, (Q + 1,).
    row: Annotated[np.ndarray, unwritten(types.int32)]
    #: Largest multiplier, in the rate of a row, of the power of each effect on each predictor,
    #: (K Q,), and of the power beyond its limit.
    near: Vector
    beyond: Vector


NO_COLUMNS = RowsOfColumns(
    np.zeros(1, np.int64), read_only(np.empty(0, np.int32)), np.empty(0), np.empty(0)
)


def are_several(rows: Any) -> bool:
    """Return whether these are `SeveralRows`, or their numba type."""
    return getattr(rows, "instance_class", type(rows)) is SeveralRows


def parts_of(rows: Rows | SeveralRows) -> tuple[Rows, ...]:
    """Return the rows of each likelihood."""
    return rows.parts if isinstance(rows, SeveralRows) else (rows,)


def rows_type(dtype: np.dtype, n_likelihoods: int = 1) -> types.Type:
    """Return the numba type of `Rows` or `SeveralRows` whose designs have the given dtype."""
    if n_likelihoods > 1:
        return record_type(SeveralRows, dtype, n_likelihoods)
    return record_type(Rows, dtype)


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def dot(x, w, start):
    """Return x . w[start:][:len(x)] in double precision, in an order that suits the vector unit."""
    # Numba checks whether a signed index counts from the end: then no loop is vectorised.
    start = np.uint64(start)
    total = 0.0
    for j in range(np.uint64(x.shape[0])):
        total += x[j] * w[start + j]
    return total


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def add_multiple(factor, x, gradient, start):
    """Add factor * x to gradient[start:][:len(x)]."""
    start = np.uint64(start)
    for j in range(np.uint64(x.shape[0])):
        gradient[start + j] += factor * x[j]


@kernel_part
def width(rows):
    """Return the number of coefficients of each predictor."""
    return rows.X.shape[1] + rows.intercept + rows.n_sparse


@kernel_part
def shared_part(rows, w):
    """Return what all rows share, after the coefficients: nuisances, and the bound's numbers."""
    return w[rows.offset.shape[1] * width(rows) :]


@kernel_part
def bound_part(rows, w):
    """Return what all rows share of their bound, after coefficients and nuisance parameters."""
    return w[rows.offset.shape[1] * width(rows) + rows.n_nuisances :]


#: Rows that are enough for a product of matrices: with fewer, copying the coefficients costs as
#: much as the products of vectors.
ENOUGH_ROWS = 8


@kernel_part
def as_matrix(block, size):
    """Return whether some rows are worth a product of matrices, and whether there is room."""
    return block.shape[0] > 0 and size >= ENOUGH_ROWS


@kernel_part
def row_predictors(rows, w, index, start, size, eta, block):
    """Write the predictors of rows index[start:start + size] at w to `eta`, then the sums.

    `block`, (n, X.shape[1]) or (0, X.shape[1]), is where the dense rows are put together, for one
    product of matrices if they are enough.
    """
    n_columns, n_predictors, each = rows.X.shape[1], rows.offset.shape[1], width(rows)
    # One loop for each part of a design: the first is fast as long as the others stay out of it.
    if as_matrix(block, size):
        for i in range(size):
            n = index[start + i] - rows.first
            for j in range(n_columns):
                block[i, j] = rows.X[n, j]
        weights = np.empty((n_columns, n_predictors))
        for k in range(n_predictors):
            for j in range(n_columns):
                weights[j, k] = w[k * each + j]
        np.dot(block[:size], weights, eta[:size])
    else:
        for i in range(size):
            for k in range(n_predictors):
                eta[i, k] = dot(rows.X[index[start + i] - rows.first], w, k * each)
    if rows.intercept == 1:
        for i in range(size):
            for k in range(n_predictors):
                eta[i, k] += w[k * each + n_columns]
    if rows.offset.shape[0] > 0:
        for i in range(size):
            for k in range(n_predictors):
                eta[i, k] += rows.offset[index[start + i] - rows.first, k]
    if rows.n_sparse > 0:
        for k in range(n_predictors):
            place = k * each + n_columns + rows.intercept
            add_effects(rows, index, start, size, w, place, False, eta, k)
    if rows.n_sums > 0:
        effects = bound_part(rows, w)[PARTS_SHARED.effects :]
        for k in range(rows.n_sums):
            eta[:size, n_predictors + k] = 0.0
            place = k * rows.n_sparse
            add_effects(rows, index, start, size, effects, place, True, eta, n_predictors + k)


@kernel_part
def add_rows(rows, index, start, size, factors, gradient, block):
    """Add the rows' predictors' gradients in w, times factors (size, K), to `gradient`.

    The gradients of the sums are added likewise; their factors follow. `block` is as
    `row_predictors` has left it.
    """
    n_columns, n_predictors, each = rows.X.shape[1], rows.offset.shape[1], width(rows)
    if as_matrix(block, size):
        product = np.dot(factors[:size].T, block[:size])
        for k in range(n_predictors):
            for j in range(n_columns):
                gradient[k * each + j] += product[k, j]
    else:
        for i in range(size):
            n = index[start + i] - rows.first
            for k in range(n_predictors):
                add_multiple(factors[i, k], rows.X[n], gradient, k * each)
    if rows.intercept == 1:
        for i in range(size):
            for k in range(n_predictors):
                gradient[k * each + n_columns] += factors[i, k]
    if rows.n_sparse > 0:
        for k in range(n_predictors):
            place = k * each + n_columns + rows.intercept
            add_effects_gradient(rows, index, start, size, factors, k, False, gradient, place)
    if rows.n_sums > 0:
        effects = bound_part(rows, gradient)[PARTS_SHARED.effects :]
        for k in range(n_predictors, n_predictors + rows.n_sums):
            place = (k - n_predictors) * rows.n_sparse
            add_effects_gradient(rows, index, start, size, factors, k, True, effects, place)
