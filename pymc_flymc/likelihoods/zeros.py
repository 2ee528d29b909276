"""Mixtures of zeros and another distribution, as PyMC builds them."""

from typing import Any

import numpy as np
import pymc as pm
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import HurdleRV, MixtureRV
from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data

_ZEROS: Any = pm.DiracDelta.rv_type


def without_hurdle(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable | None]:
    """Return the variable that is never zero, of ``pm.HurdlePoisson`` and the like, and psi.

    psi is the probability of a value that is not zero: a scalar, or a value for each row. A
    variable of another kind is returned as it is, without psi.
    """
    psi, values = _parts(rv, HurdleRV) or (None, rv)
    return values, psi


def parts_of_inflated(rv: TensorVariable) -> tuple[TensorVariable, TensorVariable] | None:
    """Return psi and the variable to which zeros are added, or None without such a mixture.

    psi is the probability of a value of that variable, zero or not.
    """
    return _parts(rv, MixtureRV)


def _parts(rv: TensorVariable, kind: type) -> tuple[TensorVariable, TensorVariable] | None:
    if rv.owner is None or not isinstance(rv.owner.op, kind):
        return None
    _, weights, *components = rv.owner.inputs
    if len(components) != 2:
        return None
    zeros, values = components
    if zeros.owner is None or not isinstance(zeros.owner.op, _ZEROS):
        return None
    (place,) = zeros.owner.op.dist_params(zeros.owner)
    if has_rows_of_data(place) or free_inputs([place]) or np.any(evaluate(place) != 0):
        return None
    psi: Any
    op = None if weights.owner is None else weights.owner.op
    if isinstance(op, MakeVector) and len(weights.owner.inputs) == 2:
        psi = weights.owner.inputs[1]
    elif isinstance(op, Join):
        psi = weights.owner.inputs[-1]
        psi = psi.squeeze(axis=-1) if psi.type.broadcastable[-1] else psi[..., -1]
    else:
        psi = weights[..., -1]
    if psi.ndim and all(psi.type.broadcastable):
        psi = psi.squeeze()
    values = values.owner.clone().outputs[values.owner.outputs.index(values)]
    values.name = rv.name
    return psi, values
