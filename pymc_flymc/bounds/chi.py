"""The chi distribution: that of the norm of a standard normal vector.

`scipy.stats` has it, too, but its import takes as long as that of PyMC.
"""

import math

from scipy.special import gammaincinv, gammaln


def chi_quantile(probability: float, degrees: float) -> float:
    """Return a quantile of the norm of a standard normal vector with so many elements."""
    return math.sqrt(2.0 * float(gammaincinv(degrees / 2.0, probability)))


def chi_moment(order: float, degrees: float) -> float:
    """Return the mean of the norm to a power."""
    ratio = gammaln((degrees + order) / 2.0) - gammaln(degrees / 2.0)
    return math.exp(0.5 * order * math.log(2.0) + float(ratio))
