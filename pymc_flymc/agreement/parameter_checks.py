"""Conditions that a model's distributions set on their parameters, evaluated on some rows.

PyMC writes them into a density, ``sigma > 0`` or ``0 <= p <= 1``, and compares numbers. Here sides
are subtracted: a probability that was rounded to above one is no violation, nor is a scale that has
underflowed to zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.compared_rows import WHOLE
from pymc_flymc.agreement.evaluation import Point
from pymc_flymc.agreement.gathering import NotGatheredError, RowsOfGraph
from pymc_flymc.agreement.perturbed import rounded_function
from pymc_flymc.agreement.values import MANY
from pymc_flymc.graphs.tools import free_inputs, known_size

#: Operations whose results are all true only if all their arguments are.
_TOGETHER = (Alloc, DimShuffle, Join, MakeVector, Reshape, ScalarFromTensor, SpecifyShape)


def margins_of(condition: Variable) -> list[TensorVariable]:
    """Return numbers that are negative where a condition does not hold, zero where it just does.

    Parameters
    ----------
    condition : Variable
        It must hold for each element. What is not made of inequalities is left out.
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


class ParameterChecks:
    """The conditions that a model's own density sets on parameters, on some rows.

    Parameters
    ----------
    logp : TensorVariable
        From `freeze`: log densities of observed values.
    chosen : ndarray of int
        Places of some values.
    """

    def __init__(self, logp: TensorVariable, chosen: np.ndarray) -> None:
        rows = np.unique(np.unravel_index(chosen, logp.type.shape)[0])
        checks = [v.owner for v in ancestors([logp]) if _is_check(v)]
        self._margins = [
            (str(check.op.msg), *taken)
            for check in checks
            for condition in check.inputs[1:]
            for margin in margins_of(condition)
            if (taken := _of_rows(margin, logp.type.shape[0], rows)) is not None
        ]

    def violated(self, points: Sequence[Point]) -> list[str | None]:
        """Return what the model says of a condition that does not hold, for each point.

        None stands for points at which all conditions that are known hold on these rows.
        """
        found: list[str | None] = [None] * len(points)
        for message, margin, data in self._margins:
            if any(_negative(margin, data, points, 0)):
                for t, negative in enumerate(_negative(margin, data, points, MANY)):
                    found[t] = message if negative else found[t]
        return found


def _is_check(v: Variable) -> bool:
    return v.owner is not None and isinstance(v.owner.op, CheckParameterValue)


def _of_rows(
    margin: TensorVariable, n_rows: int | None, rows: np.ndarray
) -> tuple[TensorVariable, dict[Any, Any]] | None:
    """Return some rows of a margin, and the data that they are made of; None if it is not known."""
    shape = margin.type.shape
    if not free_inputs([margin]) or None in shape:
        return None
    if not margin.ndim:
        return margin, {}
    size = known_size(margin)
    takes: list[RowsOfGraph | AllOfGraph] = []
    if shape[0] == n_rows and n_rows != 1:
        values = np.arange(size).reshape(shape[0], -1)[rows]
        takes.append(RowsOfGraph(values.ravel()))
    if size <= WHOLE:
        takes.append(AllOfGraph(np.arange(size)))
    for take in takes:
        with suppress(NotGatheredError):
            return take(margin), dict(zip(take.inputs, take.values, strict=True))
    return None


def _negative(
    margin: TensorVariable, data: dict[Any, Any], points: Sequence[Point], draws: int
) -> list[bool]:
    inputs = free_inputs([margin])
    function = rounded_function(inputs, [margin])
    negative = []
    for point in points:
        found = function(
            *(data[v] if v in data else point[str(v.name)] for v in inputs), draws=draws
        )
        negative.append(found is not None and bool(np.any(found[0][0] < -found[0][1])))
    return negative
