"""Where numbers stand in arrays that one module fills and others read, by name.

A layout is a named tuple of places. Kernels read it as constants.
"""

from __future__ import annotations

from typing import NamedTuple


class Powers(NamedTuple):
    """What rows share under a Taylor bound: two powers of the radius.

    The rate of a row is ``near`` and ``beyond`` of these times those of its constants, see `Row`.
    """

    near: int = 0
    beyond: int = 1


class Row(NamedTuple):
    """Constants of a row under a Taylor bound.

    What multiplies the two powers of the radius, the outcome, and the first of its predictors at
    the anchor. Row data stand behind the predictors. Where `near` is infinite the row is bright
    always: its bound is zero, see `ExpansionBound.prepare`.
    """

    near: int = 0
    beyond: int = 1
    outcome: int = 2
    anchor: int = 3

    def row_data(self, n_predictors: int) -> int:
        """Return the place of the first of the row data."""
        return self.anchor + n_predictors


class PartsRow(NamedTuple):
    """Constants of a row under a Taylor bound in parts, with the reach of its dense part.

    `near` is in the same place as that of `Row`, and may be infinite, too.
    """

    near: int = 0
    beyond: int = 1
    reach: int = 2
    outcome: int = 3
    anchor: int = 4
    row_data: int = 5


class PartsShared(NamedTuple):
    """What rows share under a Taylor bound in parts.

    Two powers of the dense part's radius, the first of those of the effects, one each, and behind
    all of them their powers beyond limits.
    """

    near: int = 0
    beyond: int = 1
    effects: int = 2


class Header(NamedTuple):
    """Numbers in front of what is packed for `radius_powers.radius_powers`.

    Number of sparse columns; of the dense part limit, scale and growth.
    """

    n_sparse: int = 0
    limit: int = 1
    scale: int = 2
    growth: int = 3


class Moments(NamedTuple):
    """Rows of what is said of the effects of groups, given all other parameters; a column each.

    Their conditional means and sds without bright rows, and how many times as much as an effect the
    coefficient of its column changes.
    """

    mean: int = 0
    sd: int = 1
    change: int = 2


POWERS, ROW, PARTS_ROW, PARTS_SHARED, HEADER = Powers(), Row(), PartsRow(), PartsShared(), Header()
MOMENTS = Moments()
