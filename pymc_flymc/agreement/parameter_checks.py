"""Conditions that a model's distributions set on their parameters, evaluated on some rows.

PyMC writes them into a density, ``sigma > 0`` or ``0 <= p <= 1``, and compares numbers. Here the
sides are subtracted: a probability rounded to above one is no violation, nor is a scale that has
underflowed.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.all_of_graph import AllOfGraph
from pymc_flymc.agreement.compared import WHOLE
from pymc_flymc.agreement.evaluation import Point, of_graph
from pymc_flymc.agreement.gathering import NotGatheredError, RowsOfGraph
from pymc_flymc.agreement.values import MANY
from pymc_flymc.compat.pymc import CheckParameterValue
from pymc_flymc.graphs.tools import free_inputs, known_size

#: Operations whose results are all true only if all their arguments are.
_TOGETHER = (Alloc, DimShuffle, Join, MakeVector, Reshape, ScalarFromTensor, SpecifyShape)


def margins_of(condition: Variable) -> list[TensorVariable]:
    """Return numbers that are negative where an inequality is violated, zero at its boundary."""
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
    """Return the model's message for a violated condition on some rows, or None, for each point."""
    found: list[str | None] = [None] * len(points)
    rows = np.unique(np.unravel_index(chosen, logp.type.shape)[0])
    for check in [v.owner for v in ancestors([logp]) if _is_check(v)]:
        for margin in [each for condition in check.inputs[1:] for each in margins_of(condition)]:
            negative = _negative(margin, logp.type.shape[0], rows)
            if negative is not None and negative(points, 0).any():
                for t in np.flatnonzero(negative(points, MANY)):
                    found[t] = str(check.op.msg)
    return found


def _is_check(v: Variable) -> bool:
    return v.owner is not None and isinstance(v.owner.op, CheckParameterValue)


def _negative(
    margin: TensorVariable, n_rows: int | None, rows: np.ndarray
) -> Callable[[Sequence[Point], int], np.ndarray] | None:
    """Return whether rows of a known margin are negative, as a function of points and draws."""
    shape = margin.type.shape
    if not free_inputs([margin]) or None in shape:
        return None
    if not margin.ndim:
        return partial(_any_negative, margin)
    size = known_size(margin)
    takes: list[RowsOfGraph | AllOfGraph] = []
    if shape[0] == n_rows and n_rows != 1:
        values = np.arange(size).reshape(shape[0], -1)[rows]
        takes.append(RowsOfGraph(values.ravel()))
    if size <= WHOLE:
        takes.append(AllOfGraph(np.arange(size)))
    for take in takes:
        with suppress(NotGatheredError):
            some = take(margin)
            data = dict(zip(take.inputs, take.values, strict=True))
            return partial(_any_negative, some, m=take.m, data=data)
    return None


def _any_negative(
    margin: TensorVariable, points: Sequence[Point], draws: int, m: int = 1, data: Any = None
) -> np.ndarray:
    found = of_graph(margin, points, draws, m, data)
    return np.any(found.values < -found.errors, axis=1)
