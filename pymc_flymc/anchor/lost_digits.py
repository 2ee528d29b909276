r"""Directions in which sums over rows have lost their digits to rounding.

Collapsed sums are quadratics :math:`u^\top A u` in the coefficients' distance from the anchor. A
column far from zero relative to its spread, as a date in seconds, is nearly a multiple of the
intercept's. Then large terms nearly cancel along a line on which the posterior is wide. The
difference is rounding, of A and of the sum, and no chain shows it: all follow the same sums.
"""

import numpy as np

from pymc_flymc.anchor.collinear import Lines
from pymc_flymc.regression.expansion import JointExpansion

#: Largest checked eigenvalue of the precision, of parameters in units of their conditional sds; and
#: the share of the rows' terms that is left if they cancel.
SMALL, CANCELLED = 1e-10, 1e-8
#: Largest rounding error of the log density within a posterior sd that draws do not show.
LARGEST_ERROR = 0.05
EPSILON = float(np.finfo(np.float64).eps)


def check_digits(names: str, lines: Lines, expansion: JointExpansion) -> None:
    """Refuse a posterior along a direction of which collapsed sums are rounding errors."""
    form, size = lines.terms(expansion)
    # If the curvature vanishes for another reason, as along the ridge of a product or in a funnel,
    # there are no large terms that cancel. For equal columns they cancel to the last digit, and the
    # prior alone determines the width of the posterior.
    total = np.maximum(lines.values, EPSILON)
    cancelled = (np.abs(form) < CANCELLED * size) & (np.abs(form) > 2.0 * LARGEST_ERROR * total)
    lost = np.flatnonzero(cancelled & (EPSILON * size > LARGEST_ERROR * total))
    if len(lost):
        raise ValueError(
            f"{lines.described(int(lost[0]))}, and the posterior "
            f"of {names} is wide along that line: sums over rows are rounding errors "
            "there. Centre such columns, as a date: subtract the mean and divide by the standard "
            "deviation; or give these parameters narrower priors"
        )
