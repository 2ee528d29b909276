"""Refuse a model that has a density where the density that was read has none, or vice versa."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.agreement.compared import (
    ComparedRest,
    ComparedRows,
    Point,
    Points,
    RowsOfGraph,
    evaluate,
    function_of_points,
)
from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.compat.pymc import CheckParameterValue
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.tools import free_inputs, plain_function
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
        self._arguments = plain_function(inputs, flat)
        self._distance = plain_function([*inputs, *targets], [total, gradient])

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


#: Distances from the anchor, in units of the Laplace approximation, in opposite directions.
DISTANCES = (1.0, 2.0, 3.0, 4.0, 6.0, 10.0)
#: Largest number of points at which all rows are evaluated.
SOME = 3


def points_around(anchor: Anchor, points: Points, rng: np.random.Generator) -> Points:
    """Return points about the anchor; other steps' variables are those of the first of `points`.

    Random directions rarely change the signs of all factors of a product that may be negative
    together, so points at which they are negative are among these.
    """
    others = points.flat[0][1]
    steps = [s * rng.standard_normal(points.layout.size) for s in DISTANCES]
    thetas = [anchor.geometry.unstandardise(sign * step) for step in steps for sign in (1.0, -1.0)]
    thetas += negative_together(points.graph, anchor.geometry, others)
    return replace(points, flat=[(points.layout.round(theta), others) for theta in thetas])


def check_defined(points: Points, parts: Sequence[ComparedRows | ComparedRest]) -> None:
    """Refuse a model that has a density at some points at which the one that was read has none."""
    lost = points.at(~_is_read(points))
    if not lost.flat:
        return
    for with_checks in (False, True):  # PyMC's own functions may have values beyond its checks
        known = np.ones(len(lost.flat), bool)
        for part in parts:
            known &= np.isfinite(part.expected(lost, with_checks)).all(axis=1)
        lost = lost.at(known & (np.cumsum(known) <= SOME))
        if not lost.flat:
            return
    raise UnsupportedModelError(
        f"the model has a density at ({lost.describe(0)}), and what Firefly reads of it has none "
        "there, so that no chain would go there: it takes logarithms of scales, variances and "
        "factors of means. Give the variables that these are made of priors of positive values, "
        "such as pm.HalfNormal, or write squares of them, as in pm.math.sqrt(se**2 + tau**2), "
        f"where the initial value of tau must not be zero"
    )


def check_possible(points: Points, parts: Sequence[ComparedRows]) -> None:
    """Refuse a model whose checks exclude points at which the density that was read is positive."""
    for rows in parts:
        violated = violated_checks(rows.logp, rows.chosen, points.named)
        beyond = _is_read(points) & np.array([message is not None for message in violated])
        if not beyond.any():
            continue
        own, _ = rows.evaluate(points, 0)
        beyond &= np.isfinite(own.values).all(axis=1)
        for t in np.flatnonzero(beyond)[:SOME]:
            at = points.at(np.arange(len(points.flat)) == t)
            # A failed check of one component of a mixture leaves the other components.
            if np.isneginf(rows.expected(at, True)).any():
                raise UnsupportedModelError(
                    f"the model has no density at ({at.describe(0)}), where {violated[t]!r} "
                    "does not hold, and what Firefly reads of it has one. Give the variable "
                    "a prior that does not go there, such as pm.Beta for a probability, "
                    "and please report this model"
                )


def _is_read(points: Points) -> np.ndarray:
    """Return at which points what was read has a density, apart from its rows."""
    rest, coefficients = points.read(0)
    finite = np.isfinite(rest[:, 0])
    for of_part in coefficients:
        finite &= [each is not None and bool(np.isfinite(each).all()) for each in of_part]
    return finite
