"""Conditions that a model's distributions set on their parameters, evaluated on some rows.

PyMC writes them into a density, ``sigma > 0`` or ``0 <= p <= 1``, and compares numbers. Here sides
are subtracted: a probability that was rounded to above one is no violation, nor is a scale that has
underflowed to zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.rows_of_graph import (
    Point,
    RowsOfGraph,
    evaluate,
    function_of_points,
)
from pymc_flymc.compat.pymc import CheckParameterValue
from pymc_flymc.graphs.tools import free_inputs

#: Margins below zero by no more are rounding errors.
TOLERANCE = 1e-9
#: Operations whose results are all true only if all their arguments are.
_TOGETHER = (Alloc, DimShuffle, Join, MakeVector, Reshape, ScalarFromTensor, SpecifyShape)


def margins_of(condition: Variable) -> list[TensorVariable]:
    """Return numbers that are negative where a condition does not hold, zero where it just does.

    It must hold for each element; of it, what is not made of inequalities is left out.
    """
    node: Any = condition.owner
    if node is None:
        return []
    operation = getattr(node.op, "scalar_op", None)
    if isinstance(node.op, Elemwise) and isinstance(operation, ps.GT | ps.GE):
        return [node.inputs[0] - node.inputs[1]]
    if isinstance(node.op, Elemwise) and isinstance(operation, ps.LT | ps.LE):
        return [node.inputs[1] - node.inputs[0]]
    is_and = isinstance(node.op, Elemwise | CAReduce) and isinstance(operation, ps.AND)
    if is_and or isinstance(operation, ps.Cast) or isinstance(node.op, _TOGETHER):
        return [margin for v in node.inputs for margin in margins_of(v)]
    return []


def violated_checks(
    logp: TensorVariable, chosen: np.ndarray, points: Sequence[Point]
) -> list[str | None]:
    """Return what a model says of a condition on parameters that does not hold, for each point.

    None stands for points at which all that are known hold on some rows of `logp`, from `freeze`.
    """
    found: list[str | None] = [None] * len(points)
    n_rows = logp.type.shape[0]
    rows = np.unique(np.unravel_index(chosen, logp.type.shape)[0])
    for check in [v.owner for v in ancestors([logp]) if _is_check(v)]:
        for margin in [each for condition in check.inputs[1:] for each in margins_of(condition)]:
            if not free_inputs([margin]) or None in margin.type.shape:
                continue
            if margin.ndim and margin.type.shape[0] == n_rows != 1:
                values = RowsOfGraph(margin, rows)(points)
            else:
                values = evaluate(function_of_points(margin), points)
            for t in np.flatnonzero((values.reshape(len(points), -1) < -TOLERANCE).any(axis=1)):
                found[t] = str(check.op.msg)
    return found


def _is_check(v: Variable) -> bool:
    return v.owner is not None and isinstance(v.owner.op, CheckParameterValue)
