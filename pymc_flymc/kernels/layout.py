"""Places of numbers in arrays that one module fills and others read, by name.

A layout is a named tuple of places. Kernels read it as constants. If it depends on sizes, a
function returns it, which Python calls, too, with numbers or with graphs.
"""

from typing import Any, NamedTuple

from numba.extending import register_jitable


class Powers(NamedTuple):
    """Two shared powers of the radius: a row's rate is both, each times its constant in `Row`."""

    near: int = 0
    beyond: int = 1


class Row(NamedTuple):
    """Constants of a row under a Taylor bound.

    The multipliers of the two powers of the radius, the outcome, and the first of its predictors at
    the anchor. Row data follow the predictors. A row whose `near` is infinite is always bright: its
    bound is zero, see `ExpansionBound.prepare`.
    """

    near: int = 0
    beyond: int = 1
    outcome: int = 2
    anchor: int = 3

    def row_data(self, n_predictors: int) -> int:
        """Return the place of the first of the row data."""
        return self.anchor + n_predictors


class PartsRow(NamedTuple):
    """Constants of a row under a Taylor bound in parts, as in `Row`, with its dense half-width.

    Row data follow the predictors at the anchor. Last come the weights of the powers of the effects
    on the predictors, relative to the first one, whose weight is one.
    """

    near: int = 0
    beyond: int = 1
    half_width: int = 2
    outcome: int = 3
    anchor: int = 4

    def row_data(self, n_predictors: int) -> int:
        """Return the place of the first of the row data."""
        return self.anchor + n_predictors


class PartsShared(NamedTuple):
    """What rows share under a Taylor bound in parts.

    Two powers of the dense part's radius; a power of each effect on each predictor, and another
    beyond its limit.
    """

    near: int = 0
    beyond: int = 1
    effects: int = 2


class Header(NamedTuple):
    """Numbers before the packed effects: their number, the dense part's powers, and the shifts.

    `n_effects` are those on all predictors together.
    """

    n_effects: int = 0
    limit: int = 1
    scale: int = 2
    growth: int = 3
    n_shifts: int = 4
    n_predictors: int = 5


class Moments(NamedTuple):
    """Rows of a table with a column for each effect of a group, given all other parameters."""

    mean: int = 0  #: Without bright rows, as `sd` is.
    sd: int = 1
    change: int = 2  #: Of a column's coefficient per unit of its effect.


class QuadraticParts(NamedTuple):
    """Parts of a packed quadratic in P coefficients, in this order, or their places."""

    constant: Any
    centre: Any
    linear: Any  #: Gradient at the centre.
    curvature: Any


class Arrow(NamedTuple):
    """Numbers before a packed matrix of many coefficients, see `SymmetricMatrix`."""

    start: int = 0  #: Number of columns before the sparse ones, of each predictor.
    n_sparse: int = 1  #: Number of sparse columns of all predictors.
    n_pairs: int = 2  #: Number of pairs of sparse columns that occur in the same row.
    n_predictors: int = 3


class MatrixParts(NamedTuple):
    """Parts of a packed symmetric matrix, in this order, or where each of them begins.

    The dense block, row by row; the block of dense rows and sparse columns; the diagonal of the
    sparse block; and, if pairs of sparse columns occur in the same row, the number of entries above
    the diagonal in each row, the entries, and their columns. `behind` is not a part of the matrix.
    """

    dense: Any
    cross: Any
    diagonal: Any
    lengths: Any
    values: Any
    columns: Any
    behind: Any = ()


@register_jitable
def place_of_weight(n_constants, n_predictors, k):
    """Return the place of the weight on predictor k > 0 among the constants of a `PartsRow`."""
    return n_constants - n_predictors + k


@register_jitable
def quadratic_places(n_coefficients):
    """Return the `QuadraticParts` for P coefficients."""
    linear = 1 + n_coefficients
    end = linear + n_coefficients
    return QuadraticParts(0, slice(1, linear), slice(linear, end), end)


@register_jitable
def matrix_places(first, n_dense, n_sparse, n_pairs):
    """Return the `MatrixParts` from a place on, without an `Arrow`."""
    cross = first + n_dense * n_dense
    diagonal = cross + n_dense * n_sparse
    lengths = diagonal + n_sparse
    values = lengths + n_sparse * (n_pairs > 0)
    columns = values + n_pairs
    return MatrixParts(first, cross, diagonal, lengths, values, columns, columns + n_pairs)


POWERS, ROW, PARTS_ROW, PARTS_SHARED, HEADER = Powers(), Row(), PartsRow(), PartsShared(), Header()
MOMENTS, ARROW = Moments(), Arrow()
