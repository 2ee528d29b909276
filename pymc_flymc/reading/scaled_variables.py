"""Variables whose elements are a location plus a scale times a standardised variable."""

import math
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import (
    CauchyRV,
    GumbelRV,
    LaplaceRV,
    LogisticRV,
    LogNormalRV,
    MvNormalRV,
    NormalRV,
    StudentTRV,
)

from pymc_flymc.compat.pymc import (
    CARRV,
    LogTransform,
    MoyalRV,
    RandomWalkRV,
    SkewNormalRV,
    ZeroSumNormalRV,
)
from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.graphs.simplifying import rewritten
from pymc_flymc.graphs.tools import evaluate
from pymc_flymc.reading.functions_of_variables import random_variables

#: Distributions with a location at this index among their parameters, and a scale after it.
INDEPENDENT: dict[type, int] = {
    NormalRV: 0,
    StudentTRV: 1,
    LaplaceRV: 0,
    CauchyRV: 0,
    LogisticRV: 0,
    GumbelRV: 0,
    MoyalRV: 0,
    SkewNormalRV: 0,
}

#: Rewrites that remove the computation of known shapes.
SIMPLER = rewrites("canonicalize")


class LocationScale(NamedTuple):
    """A variable's elements that have a location and a scale."""

    location: Variable | None  #: None if it is zero.
    scale: Variable  #: Broadcasts with the elements, or is a covariance.
    #: Their indices in the variable's flat unconstrained value, in their own shape.
    elements: np.ndarray
    #: Indices of the variable's own elements that are their locations, in the same shape.
    origin: np.ndarray | None = None
    correlated: bool = False  #: Whether the scale is a covariance, of the last axis.

    @property
    def standard_deviations(self) -> Variable:
        """Return the scale, or the square roots of the diagonal of a covariance."""
        if not self.correlated:
            return self.scale
        return pt.sqrt(pt.diagonal(self.scale, axis1=-2, axis2=-1))


def location_scale(rv: Variable, shape: tuple[int, ...], model: Model) -> LocationScale | None:
    """Return a variable's elements that have a location and a scale, or None.

    These are independent elements, or their logarithms; correlated ones; a conditional
    autoregression; elements with a sum of zero, whose unconstrained values are linear in them; and
    a random walk, whose first element is the location of the others.
    """
    node, transform = rv.owner, model.rvs_to_transforms.get(rv)
    places = np.arange(math.prod(shape)).reshape(shape)
    if isinstance(node.op, ZeroSumNormalRV) and isinstance(transform, ZeroSumTransform):
        return LocationScale(None, _scalar(node.op.dist_params(node)[0]), places)
    at = INDEPENDENT.get(type(node.op)) if transform is None else None
    if isinstance(node.op, LogNormalRV) and isinstance(transform, LogTransform):
        at = 0
    if at is not None:
        location, scale = map(_scalar, node.op.dist_params(node)[at : at + 2])
        return LocationScale(None if _is_zero(location, model) else location, scale, places)
    if transform is not None:
        return None
    if isinstance(node.op, CARRV):
        location, _, _, precision, _ = node.op.dist_params(node)
        scale = 1.0 / pt.sqrt(_scalar(precision))
        return LocationScale(None if _is_zero(location, model) else location, scale, places)
    if isinstance(node.op, MvNormalRV):
        # PyMC broadcasts each parameter to the other's shape, and there is no other dependence.
        both = node.op.dist_params(node)
        location, covariance = rewritten(both, SIMPLER, kept=set(model.basic_RVs))
        known: Any = {v: pt.zeros(v.type.shape) for v in random_variables(covariance, model)}
        # A variable of the location may have the same covariance: it stays as it is.
        own = {v: v.type() for v in random_variables(location, model) if v not in known}
        (location,) = graph_replace([location], known | own, strict=False)
        (location,) = graph_replace([location], {v: k for k, v in own.items()}, strict=False)
        zero = _is_zero(location, model)
        return LocationScale(None if zero else location, covariance, places, correlated=True)
    if isinstance(node.op, RandomWalkRV) and shape:
        steps = node.op.dist_params(node)[1].owner
        if isinstance(steps.op, NormalRV) and _is_zero(steps.inputs[-2], model):
            origin = np.broadcast_to(places[..., :1], places[..., 1:].shape)
            return LocationScale(None, _scalar(steps.inputs[-1]), places[..., 1:], origin)
    return None


def _scalar(parameter: Variable) -> Variable:
    """Return the scalar that a parameter of all elements repeats, or the parameter itself."""
    node = parameter.owner
    if node is not None and isinstance(node.op, DimShuffle) and node.inputs[0].type.ndim == 0:
        return node.inputs[0]
    return parameter


def _is_zero(variable: Variable, model: Model) -> bool:
    return not random_variables(variable, model) and not np.any(evaluate(variable))
