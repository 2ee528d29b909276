"""Scales of effects that no move of a chain changes together with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.kernels.shared_scales import SharedScales
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.functions_of_variables import compile_given, step_variables
from pymc_flymc.reading.scaled_variables import scale_parameter

__all__ = ["UnmovedScale", "unmoved_scales"]

#: Unconstrained values that are tried; a scale that falls to this share there becomes small.
TRIED, SMALL = 8.0, 0.1


class UnmovedScale(NamedTuple):
    """A variable of which the scale of others is computed.

    Attributes
    ----------
    effects, name : str
        Names of the others, and of the variable.
    places : slice
        Of the variable in theta.
    """

    effects: str
    name: str
    places: slice


def unmoved_scales(
    model: Model, variables: Sequence[TensorVariable], layout: Layout, moved: SharedScales
) -> list[UnmovedScale]:
    """Return what can make the scale of a variable small that has no moves with its scale.

    Parameters
    ----------
    variables : sequence of TensorVariable
        Value variables that the step samples.
    layout : Layout
        Of these.
    moved : SharedScales
        Those with moves.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    shapes = dict(zip(places, layout.shapes, strict=True))
    found = []
    for rv, place in places.items():
        scale = scale_parameter(rv, shapes[rv], model)
        if scale is None or np.isin(np.arange(place.start, place.stop), moved.effects).any():
            continue
        of = step_variables(scale, model, shapes)
        found += [
            UnmovedScale(str(rv.name), str(each.name), places[each])
            for k, each in enumerate(of)
            if _becomes_small(scale, of, k, model, shapes)
        ]
    return found


def _becomes_small(
    scale: Variable,
    variables: Sequence[Variable],
    k: int,
    model: Model,
    shapes: dict[Variable, tuple[int, ...]],
) -> bool:
    """Return whether a scale becomes small by a variable of those that it is computed of."""
    function = compile_given(scale, variables, model)
    if function is None:
        return True

    def smallest(value: float) -> float:
        at = [np.full(shapes[each], value * (i == k)) for i, each in enumerate(variables)]
        with np.errstate(all="ignore"):
            return float(np.nan_to_num(np.min(function(at)), nan=np.inf))

    return min(smallest(-TRIED), smallest(TRIED)) < SMALL * smallest(0.0)
