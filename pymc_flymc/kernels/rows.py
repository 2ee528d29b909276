"""The rows of the data as kernels see them: predictors, and the gradients of these."""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import from_dtype, types

from pymc_flymc.kernels.layout import PARTS_SHARED
from pymc_flymc.kernels.native import kernel_part
from pymc_flymc.kernels.records import IntVector, read_only, record_type, unwritten
from pymc_flymc.kernels.sparse_effects import add_effects, add_effects_gradient

#: Sums of a row under a bound with a radius for each part: of powers, and of those beyond limits.
SUMS = 2


# Data are shared between chains and may be a read-only map: kernels promise not to write.
Numbers = Annotated[np.ndarray, unwritten(ndim=2)]


def _design(dtype: np.dtype, n_likelihoods: int = 1) -> types.Type:
    return unwritten(from_dtype(dtype), 2)


class Rows(NamedTuple):
    """The data as a kernel sees them.

    Attributes
    ----------
    X : ndarray, shape (N, P), float64 or float32
        Dense part of the design.
    offset : ndarray, shape (N, K) or (0, K), float64
        K is the number of predictors.
    intercept : int
        1 if each predictor has a further coefficient that multiplies one, else 0.
    constants : ndarray, shape (N, R), float64
        What the row's bound needs to know beside its predictor.
    n_sparse : int
        Number of sparse columns, Q: coefficients of each predictor behind all others.
    codes, values : ndarray, shapes (N, J) and (N, V), int32 and float64
        Sparse columns of each row. In the last V of them it has its values, in the others ones.
    indptr, indices, numbers : ndarray, shapes (N + 1,) or (0,), (M,), (M,); int64, int32, float64
        Further sparse columns: row n has ``numbers[indptr[n]:indptr[n + 1]]`` in the columns
        ``indices[...]``. Empty when there are none.
    first : int
        Number of the first row: other likelihoods' rows may come before these.
    n_sums : int
        Sums over a row's sparse columns, beside its predictors: 0 or `SUMS`. They are of the powers
        that `PARTS_SHARED` calls effects, and of the powers beyond limits, each times the size of
        the row's number in the column.
    n_nuisances : int
        Nuisance parameters among the coefficients, behind those of the predictors.
    totals : ndarray, shape (S, 2), float64
        Sum over all rows of the multipliers of each shared power in their rates, as a sum of two
        numbers, see `dark_rates`. Empty if the bound has no rates.
    """

    X: Annotated[np.ndarray, _design]
    offset: Numbers
    intercept: int
    constants: Numbers
    n_sparse: int = 0
    codes: Annotated[np.ndarray, unwritten(types.int32, 2)] = read_only(np.empty((0, 0), np.int32))
    values: Numbers = read_only(np.empty((0, 0)))
    indptr: Annotated[np.ndarray, unwritten(types.int64)] = read_only(np.empty(0, np.int64))
    indices: Annotated[np.ndarray, unwritten(types.int32)] = read_only(np.empty(0, np.int32))
    numbers: Annotated[np.ndarray, unwritten()] = read_only(np.empty(0))
    first: int = 0
    n_sums: int = 0
    n_nuisances: int = 0
    totals: Numbers = read_only(np.empty((0, 2)))


def _parts(dtype: np.dtype, n_likelihoods: int) -> types.Type:
    return types.UniTuple(record_type(Rows, dtype), n_likelihoods)


class SeveralRows(NamedTuple):
    """The data of several likelihoods, their rows numbered one likelihood after the other.

    Kernels pass it on as they do `Rows`, and tuples of log factors' addresses with it.

    Attributes
    ----------
    parts : tuple of Rows
        One for each likelihood.
    place : ndarray, shape (L + 1,), int64
        Where the coefficients of each likelihood begin. What its rows share comes behind them.
    """

    parts: Annotated[tuple[Rows, ...], _parts]
    place: IntVector


def are_several(rows: Any) -> bool:
    """Whether these are `SeveralRows`, or their numba type."""
    return getattr(rows, "instance_class", type(rows)) is SeveralRows


def parts_of(rows: Rows | SeveralRows) -> tuple[Rows, ...]:
    """Return the rows of each likelihood."""
    return rows.parts if isinstance(rows, SeveralRows) else (rows,)


def rows_type(dtype: np.dtype, n_likelihoods: int = 1) -> types.Type:
    """Numba type of `Rows` or `SeveralRows` whose designs have the given dtype."""
    if n_likelihoods > 1:
        return record_type(SeveralRows, dtype, n_likelihoods)
    return record_type(Rows, dtype)


@kernel_part(fastmath={"reassoc", "contract", "nsz"})
def dot(x, w, start):
    """X . w[start:][:len(x)] in double precision, in whatever order suits the vector unit."""
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
    """Return what all rows share, behind the coefficients: nuisance parameters, bound's own."""
    return w[rows.offset.shape[1] * width(rows) :]


@kernel_part
def bound_part(rows, w):
    """Return what all rows share of their bound, behind coefficients and nuisance parameters."""
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
    """Write the predictors of rows index[start:start + size] at coefficients w, shape (size, K).

    The sums come behind them.

    Parameters
    ----------
    block : ndarray, shape (n, X.shape[1]) or (0, X.shape[1])
        Where the dense rows are put together, for one product of matrices if they are enough.
    """
    n_columns, n_predictors, each = rows.X.shape[1], rows.offset.shape[1], width(rows)
    # One loop for each part of a design: the first is quick as long as the others stay out of it.
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
        for k in range(SUMS):
            eta[:size, n_predictors + k] = 0.0
            place = k * rows.n_sparse
            add_effects(rows, index, start, size, effects, place, True, eta, n_predictors + k)


@kernel_part
def add_rows(rows, index, start, size, factors, gradient, block):
    """Add the rows' predictors' gradients in w, times factors of shape (size, K), to `gradient`.

    The gradients of the sums are added likewise; their factors come behind. `block` is as
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
        for k in range(n_predictors, n_predictors + SUMS):
            place = (k - n_predictors) * rows.n_sparse
            add_effects_gradient(rows, index, start, size, factors, k, True, effects, place)
