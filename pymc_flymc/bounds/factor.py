"""The factor of a bright row in the augmented density, from the gap of its bound."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.bounds.all_rows import AllRows
from pymc_flymc.bounds.bound import Bound
from pymc_flymc.bounds.expansion_bound import ExpansionBound
from pymc_flymc.bounds.rounding import rounding_error
from pymc_flymc.graphs.compilation import RowFactor
from pymc_flymc.kernels.factors import VIOLATED
from pymc_flymc.likelihoods.likelihood import Likelihood


def log_odds(gap: TensorVariable) -> TensorVariable:
    """Log odds of being bright, log(L_n/B_n - 1), from the gap log L_n - log B_n.

    Written so that neither a tiny nor a huge gap loses digits or overflows. Rounding may put a gap
    that vanishes at the anchor slightly below zero: there the row cannot be bright, log odds -inf.
    """

    def pullback(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        # The chain rule would give 1 + exp(-gap) / (1 - exp(-gap)), with more exponentials.
        return [-gradients[0] / pt.expm1(-inputs[0])]

    return _of_gap(gap, lambda g: g + pt.log(-pt.expm1(-g)), pullback)


def log_brightness(gap: TensorVariable) -> TensorVariable:
    """Log probability of being bright, log(1 - B_n/L_n), as `log_odds`."""

    def pullback(inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        return [gradients[0] / pt.expm1(inputs[0])]

    return _of_gap(gap, lambda g: pt.log(-pt.expm1(-g)), pullback)


def _of_gap(gap: Any, function: Callable[[Any], Any], pullback: Callable[..., Any]) -> Any:
    gap = pt.maximum(gap, 0.0)
    g = gap.type()
    return OpFromGraph([g], [function(g)], pullback=pullback, inline=True)(gap)


def row_factor(likelihood: Likelihood, bound: Bound) -> RowFactor:
    """Log factor of a bright row: log(L/B - 1), or log L where there is no bound.

    For an expansion E less a rate it is log(L - B) - log E, so that a huge rate does not cost
    digits of the other terms. The log odds are this plus the rate. For a row that is kept bright it
    is log L - log E. Where a gap is negative beyond rounding, the bound is violated, and the factor
    is `VIOLATED`.
    """

    def log_factor(arguments: list[Any], constants: Any, shared: Any) -> Any:
        if isinstance(bound, ExpansionBound):
            remainder = bound.remainder(likelihood, arguments, constants)
            gap: Any = remainder + bound.rate(constants, arguments, shared)
            # The gap of rows that are kept bright is infinite: their bound is zero, never dark.
            gap = pt.switch(bound.is_kept_bright(constants), np.inf, gap)
            factor = remainder + log_brightness(gap)
        else:
            gap = bound.gap(likelihood, arguments, constants, shared)
            factor = log_odds(gap)
        violated = pt.lt(gap, -rounding_error(gap))
        return pt.switch(violated, pt.constant(VIOLATED, dtype="float64"), factor)

    if isinstance(bound, AllRows):
        return exact_factor(likelihood, bound)
    return _factor(likelihood, bound, log_factor)


def exact_factor(likelihood: Likelihood, bound: Bound) -> RowFactor:
    """Log factor of a row that is treated exactly, whatever its brightness: log(L/B).

    It is log L where there is no bound, and the remainder of the expansion for rows whose rates are
    zero, see `treat_exactly`.
    """

    def log_factor(arguments: list[Any], constants: Any, shared: Any) -> Any:
        if isinstance(bound, ExpansionBound):
            # Not the gap less the rate: far out powers are infinite, and zero times that is NaN.
            return bound.remainder(likelihood, arguments, constants)
        return bound.gap(likelihood, arguments, constants, shared)

    return _factor(likelihood, bound, log_factor)


def _factor(likelihood: Likelihood, bound: Bound, log_factor: Callable[..., Any]) -> RowFactor:
    n_arguments, n_common = likelihood.n_predictors, bound.n_shared
    if isinstance(bound, ExpansionBound):  # a row's sums are passed as further predictors
        n_arguments, n_common = n_arguments + bound.n_sums, bound.n_common
    sizes = len(likelihood.nuisances), bound.n_constants(likelihood), n_common
    return RowFactor(log_factor, n_arguments, *sizes)
