"""Where numbers stand in arrays that one module fills and others read, by name.

A layout is a named tuple of places. Kernels read it as constants. If it depends on sizes it comes
from a function, which Python calls, too, with numbers or with graphs.
"""

from typing import Any, NamedTuple

from numba.extending import register_jitable


class Powers(NamedTuple):
    """What rows share under a Taylor bound: two powers of the radius.

    The rate of a row is the sum of both, each times the row's constant of that name, see `Row`.
    """

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
    """Constants of a row under a Taylor bound in parts, with the half-width of its dense part.

    `near` is in the same place as that of `Row`, and may be infinite, too.
    """

    near: int = 0
    beyond: int = 1
    half_width: int = 2
    outcome: int = 3
    anchor: int = 4
    row_data: int = 5


class PartsShared(NamedTuple):
    """What rows share under a Taylor bound in parts.

    Two powers of the dense part's radius; then one power of each effect; then, for each effect, the
    power beyond its limit.
    """

    near: int = 0
    beyond: int = 1
    effects: int = 2


class Header(NamedTuple):
    """Numbers in front of what is packed for `radius_powers.radius_powers`.

    The number of sparse columns; limit, scale and growth of the dense part; the number of common
    shifts.
    """

    n_sparse: int = 0
    limit: int = 1
    scale: int = 2
    growth: int = 3
    n_shifts: int = 4


class Moments(NamedTuple):
    """Rows of a table with a column for each effect of a group, given all other parameters.

    The effects' conditional means and sds without bright rows, and the change of a column's
    coefficient per unit of its effect.
    """

    mean: int = 0
    sd: int = 1
    change: int = 2


class QuadraticParts(NamedTuple):
    """Parts of a packed quadratic in P coefficients, in this order, or their places.

    A constant, the centre, the gradient there, and the curvature; of the last where it begins.
    """

    constant: Any
    centre: Any
    linear: Any
    curvature: Any


class Arrow(NamedTuple):
    """Numbers in front of a packed matrix of many coefficients.

    The first of the sparse columns, their number, and how many pairs of them meet in a row.
    """

    start: int = 0
    n_sparse: int = 1
    n_pairs: int = 2


class MatrixParts(NamedTuple):
    """Parts of a packed symmetric matrix, in this order, or where each of them begins.

    The dense block, row by row; that of dense rows and sparse columns; the diagonal of the sparse
    block; and, if pairs of sparse columns meet, how many each row has above the diagonal, their
    numbers, and their columns. What is behind these is no part of the matrix.
    """

    dense: Any
    cross: Any
    diagonal: Any
    lengths: Any
    values: Any
    columns: Any
    behind: Any = ()


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
