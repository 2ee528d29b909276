"""Censored variables: a value at a limit is only known to lie beyond it."""

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs

_CENSORED: Any = pm.Censored.rv_type
#: What values must be, for messages: values beyond the limits have the state NaN.
WITHIN_LIMITS = "{}, or beyond the limit of censoring"


class Censoring(NamedTuple):
    """A variable without its censoring, and which of its values are censored."""

    variable: TensorVariable
    #: Graph of 1 at the upper limit, -1 at the lower one, 0 between them and NaN beyond them: for
    #: each row, or for all. The observed variable stands for its values.
    state: TensorVariable
    from_left: bool  #: Whether there may be values at a lower limit.


def is_censored(rv: TensorVariable) -> bool:
    """Return whether a random variable is ``pm.Censored``."""
    return rv.owner is not None and isinstance(rv.owner.op, _CENSORED)


def uncensored(rv: TensorVariable) -> TensorVariable:
    """Return the variable inside ``pm.Censored``, or the variable itself."""
    return rv.owner.op.dist_params(rv.owner)[0] if is_censored(rv) else rv


def censoring_of(rv: TensorVariable, lowest: float) -> Censoring:
    """Return which values of a variable, always above `lowest`, are censored at fixed limits."""
    if not is_censored(rv):
        return Censoring(rv, pt.constant(0.0), False)
    variable, lower, upper = rv.owner.op.dist_params(rv.owner)
    if free_inputs([lower, upper]):
        raise UnsupportedModelError(
            f"a limit of the observed variable {rv.name!r} is free; Firefly needs limits of "
            "censoring that are data: numbers, an array or pm.Data"
        )
    beyond = pt.gt(rv, upper) | pt.lt(rv, lower)
    # If both limits are equal, PyMC takes the value for one at the lower limit.
    sides = pt.switch(pt.le(rv, lower), -1.0, pt.ge(rv, upper).astype("float64"))
    from_left = not (all(lower.type.broadcastable) and np.all(evaluate(lower) <= lowest))
    return Censoring(variable, pt.switch(beyond, np.nan, sides), from_left)
