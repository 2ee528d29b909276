"""Hurdles: whether values are above zero, and values that are, with parameters of their own.

psi is the probability of a value above zero. The likelihood of a zero is 1 - psi, that of any other
value psi times a density of values above zero. As psi has no part in the latter, an observed
variable is two: whether values are above zero, of all rows, and values of the rows that are.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.checks import check_values
from pymc_flymc.likelihoods.zeros import parts_of_hurdle

__all__ = [
    "above_zero",
    "name_of_zeros",
    "without_hurdle",
    "zeros_of_rows",
    "zeros_of_values",
    "zeros_together",
]


def without_hurdle(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable | None]:
    """Return the variable that values above zero are of, and psi.

    Any other than that of ``pm.HurdlePoisson`` and the like comes back as it is, without psi.
    """
    parts = parts_of_hurdle(rv)
    return (rv, None) if parts is None else (parts[1], parts[0])


def name_of_zeros(name: str) -> str:
    """Return the name of the rows that say whether values are above zero."""
    return f"{name} > 0"


def above_zero(observed: np.ndarray, name: str) -> np.ndarray:
    """Return which values are above zero, shape (N,).

    Raises
    ------
    ValueError
        If there are negative values, or none above zero.
    """
    check_values(observed >= 0, observed, name, "zero or more")
    above = observed > 0
    if not above.any():
        raise ValueError(f"all values of {name!r} are zero: no row says what is beyond the hurdle")
    return np.asarray(above)


def zeros_of_rows(psi: TensorVariable, name: str) -> TensorVariable:
    """Return the random variable of which whether values are above zero is observed."""
    zeros = pm.Bernoulli.dist(p=psi)
    zeros.name = name_of_zeros(name)
    return zeros


def zeros_of_values(psi: TensorVariable, above: np.ndarray) -> TensorVariable:
    """Graph of the log-likelihoods that `zeros_together` adds up, without weights, shape (N,)."""
    return pt.switch(above, pt.log(psi), pt.log1p(-psi))


def zeros_together(
    psi: TensorVariable, above: np.ndarray, weights: np.ndarray | None
) -> TensorVariable:
    """Graph of the log-likelihood of whether values are above zero, psi being the same for all."""
    weights = np.ones(len(above)) if weights is None else weights
    ones, zeros = float(weights[above].sum()), float(weights[~above].sum())
    terms = [n * log for n, log in ((ones, pt.log(psi)), (zeros, pt.log1p(-psi))) if n > 0.0]
    return pt.add(*terms) if len(terms) > 1 else terms[0]
