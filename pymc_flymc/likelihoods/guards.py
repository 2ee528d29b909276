"""Probabilities that a model keeps off 0 and 1, as Bambi does.

Bambi's links are ``switch(eq(p, 1), 1 - eps, p)`` of the probability, and likewise for 0. This is
the probability except where it has been rounded to 0 or 1. There the log-likelihood is
log(eps) = -36, and not what the link says.
"""

from typing import Any

import numpy as np
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import walk
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import get_underlying_scalar_constant_value as number_of
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.products import is_from

__all__ = ["RANDOM", "TAILS", "are_tails", "guards_of", "without_guards"]

#: Predictors at which probabilities are 0 or 1 up to rounding, so that what is left are the numbers
#: that a model adds to them or clips them at.
TAILS = np.array([-800.0, -700.0, -350.0, -100.0, -60.0, 60.0, 100.0, 350.0, 700.0, 800.0])
#: Operations that draw random numbers.
RANDOM = (RandomVariable, SymbolicRandomVariable)
#: Largest distance from 0 or 1 of the number that replaces it.
_CLOSE = 1e-15


def guards_of(variable: TensorVariable) -> dict[Any, Any]:
    """Return the guards in a graph, and the numbers that they keep off 0 or 1."""

    def inputs_of(v: Any) -> Any:
        if v.owner is None or (v is not variable and v.name and isinstance(v.owner.op, RANDOM)):
            return None
        return v.owner.inputs

    return {v: v.owner.inputs[2] for v in walk([variable], inputs_of) if _is_guard(v)}


def without_guards(variable: TensorVariable) -> TensorVariable:
    """Return a graph with the guarded numbers in place of the guards."""
    found: Any = variable
    while guards := guards_of(found):
        # One after the other, because the number of one may hold another.
        guard, number = next(iter(guards.items()))
        (found,) = graph_replace([found], {guard: number}, strict=False)
    return found


def are_tails(values: np.ndarray, expected: np.ndarray, rtol: float) -> bool:
    """Return whether values at `TAILS` are those of a link, or what rounding leaves of them."""
    # Where digits cancel, as in 1 - 1 / (1 + exp(v)), this is zero; where numbers overflow, NaN.
    error = np.abs(values - expected)
    same = (error <= rtol * expected) | (error <= np.finfo(values.dtype).tiny)
    same |= (values == expected) | ((values == 0.0) & (expected < rtol))
    # Nothing else may stand in the place of 1.
    same &= (expected != 1.0) | (values == 1.0)
    return bool(np.all(same | np.isnan(values)))


def _is_guard(v: Any) -> bool:
    if not is_from(v, ps.Switch):
        return False
    condition, instead, number = v.owner.inputs
    if not is_from(condition, ps.EQ):
        return False
    compared = [u for u in condition.owner.inputs if u is not number]
    if len(compared) != 1 or number not in condition.owner.inputs:
        return False
    end, close = (number_of(u, raise_not_constant=False) for u in (*compared, instead))
    if isinstance(end, Variable) or isinstance(close, Variable):
        return False
    return float(end) in (0.0, 1.0) and 0.0 < float(abs(np.subtract(close, end))) <= _CLOSE
