"""Points at which arguments of logarithms in what was read of a model are negative together.

A product of factors is read as the sum of their logarithms. It is positive, too, where an even
number of factors is negative, and so is a power of a negative factor.
"""

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.basic import Alloc, Join, MakeVector, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.reading.flat import DensityGraph

#: With more logarithms than this only one, two or all of their arguments are negative together.
FEW = 5
MOST_STEPS = 100
#: Functions that are never negative, and those that are not if none of their arguments is.
_NEVER = (ps.Exp, ps.Sqr, ps.Abs, ps.Sqrt, Sigmoid, Softplus)
_OF_POSITIVE = (ps.Add, ps.Mul, ps.TrueDiv, ps.Reciprocal, ps.Pow, ps.Cast, ps.Maximum, ps.Log1p)
_SHAPES = (Alloc, DimShuffle, Join, MakeVector, Reshape, SpecifyShape, TensorFromScalar)


def negative_together(
    graph: DensityGraph, geometry: Geometry, others: np.ndarray
) -> list[np.ndarray]:
    """Return points at which each set of arguments of logarithms is negative, and no other is.

    Parameters
    ----------
    graph : DensityGraph
    geometry : Geometry
        Its origin is where the search begins.
    others : ndarray, shape (F,)
        Values of other steps' variables.
    """
    arguments = _arguments_of_logarithms([graph.prior, *graph.coefficients])
    if not arguments:
        return []
    inputs = [graph.theta, graph.others]
    function: _Distance = memoised(_Distance, inputs, arguments, inputs=inputs, outputs=arguments)
    k, found = len(arguments), []
    sizes = range(1, k + 1) if k <= FEW else (1, 2, k)
    for negative in chain.from_iterable(combinations(range(k), size) for size in sizes):
        signs = np.where(np.isin(np.arange(k), negative), -1.0, 1.0)
        # A model that raises any exception has no density there.
        with suppress(Exception):
            found += function.solve(geometry, others, signs)
    return found


def _arguments_of_logarithms(graphs: Sequence[Variable]) -> list[Any]:
    """Return the arguments, which depend on a variable and may be negative; each one once."""
    found: list[Any] = []
    for v in ancestors(graphs):
        if isinstance(v.owner and v.owner.op, Elemwise) and isinstance(
            v.owner.op.scalar_op, ps.Log
        ):
            (argument,) = v.owner.inputs
            is_new = not any(argument is each for each in found)
            if is_new and free_inputs([argument]) and not _is_positive(argument):
                found.append(argument)
    return found


def _is_positive(v: Any) -> bool:
    """Return whether a graph can be seen not to be negative anywhere."""
    if isinstance(v, Constant):
        return bool(np.all(np.asarray(v.data) >= 0))
    if v.owner is None:
        return False
    op, inputs = v.owner.op, v.owner.inputs
    if isinstance(op, Elemwise):
        if isinstance(op.scalar_op, ps.Switch):
            return all(map(_is_positive, inputs[1:]))
        if isinstance(op.scalar_op, _NEVER):
            return True
        return isinstance(op.scalar_op, _OF_POSITIVE) and all(map(_is_positive, inputs))
    if isinstance(op, CAReduce):
        return _is_positive(inputs[0])
    if isinstance(op, Subtensor | AdvancedSubtensor):
        return _is_positive(inputs[0])
    if isinstance(op, Alloc | Reshape | SpecifyShape):
        return _is_positive(inputs[0])
    return isinstance(op, _SHAPES) and all(_is_positive(u) for u in inputs[isinstance(op, Join) :])


class _Distance:
    """Mean squared distance of arguments from those at the origin, some with the other sign."""

    def __init__(self, inputs: Sequence[Any], arguments: Sequence[Any]) -> None:
        targets = [pt.vector(f"target_{i}", dtype="float64") for i in range(len(arguments))]
        flat = [each.flatten().astype("float64") for each in arguments]
        parts = [
            pt.mean(pt.sqr(each / target - 1.0)) for each, target in zip(flat, targets, strict=True)
        ]
        total: Any = pt.add(*parts) if len(parts) > 1 else parts[0]
        gradient: Any = pytensor.grad(total, inputs[0], disconnected_inputs="ignore")
        kind: dict[str, Any] = {"mode": "FAST_COMPILE", "on_unused_input": "ignore"}
        self._arguments = pytensor.function(inputs, flat, **kind)
        self._distance = pytensor.function([*inputs, *targets], [total, gradient], **kind)

    def solve(self, geometry: Geometry, others: np.ndarray, signs: np.ndarray) -> list[np.ndarray]:
        """Return the point that is found at which arguments have these signs, if one is."""
        from scipy.optimize import minimize  # slow to import, and most models do without

        own = self._arguments(geometry.centre, others)
        targets = [s * a for s, a in zip(signs, own, strict=True)]

        def distance(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._distance(geometry.unstandardise(v), others, *targets)
            return float(value), geometry.standardise_gradient(gradient)

        with np.errstate(all="ignore"):
            options = {"maxiter": MOST_STEPS}
            start = np.zeros(len(geometry.centre))
            found = minimize(distance, start, jac=True, method="L-BFGS-B", options=options)
            theta = geometry.unstandardise(found.x)
            values = self._arguments(theta, others)
        good = all(np.all(s * a > 0.0) for s, a in zip(signs, values, strict=True))
        return [theta] if good else []
