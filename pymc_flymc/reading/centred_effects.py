"""Effects that share a scale which is sampled, written in the centred way: ``a ~ N(mu, tau)``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pymc.logprob.transforms import LogTransform
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import CauchyRV, LaplaceRV, LogisticRV, NormalRV, StudentTRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.kernels.shared_scales import NO_CENTRE, SharedScales
from pymc_flymc.reading.flat import Layout

__all__ = ["find_shared_scales"]

#: Distributions whose last two parameters are a location and a scale.
LOCATION_SCALE = NormalRV, StudentTRV, LaplaceRV, CauchyRV, LogisticRV


def find_shared_scales(
    model: Model, variables: Sequence[TensorVariable], layout: Layout
) -> SharedScales:
    """Find effects with one scale, of a step's variables.

    What is found decides how well a chain moves, not where to: its rescaling is exact for any
    elements. Effects around a location that is neither zero nor a scalar of the step, or that are
    fewer than two, are left out.

    Parameters
    ----------
    variables : sequence of TensorVariable
        Value variables that the step samples.
    layout : Layout
        Of these.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    scales, centres, found = [], [], []
    for effects, at in places.items():
        node = effects.owner
        plain = model.rvs_to_transforms.get(effects) is None
        if at.stop - at.start < 2 or not plain or not isinstance(node.op, LOCATION_SCALE):
            continue
        location, scale = map(_scalar, node.inputs[-2:])
        if scale not in places or not isinstance(model.rvs_to_transforms.get(scale), LogTransform):
            continue
        if location in places and model.rvs_to_transforms.get(location) is None:
            centres.append(places[location].start)
        elif _is_zero(location):
            centres.append(NO_CENTRE)
        else:
            continue
        scales.append(places[scale].start)
        found.append(np.arange(at.start, at.stop))
    first = np.cumsum([0, *map(len, found)])
    return SharedScales(
        scale=np.array(scales, np.int64),
        centre=np.array(centres, np.int64),
        first=np.array(first, np.int64),
        effects=np.concatenate([np.empty(0, np.int64), *found]),
    )


def _scalar(parameter: Variable) -> Variable:
    """Return the scalar that a parameter of all elements is made of, or the parameter itself."""
    node = parameter.owner
    if node is not None and isinstance(node.op, DimShuffle) and node.inputs[0].type.ndim == 0:
        return node.inputs[0]
    return parameter


def _is_zero(variable: Variable) -> bool:
    data = getattr(variable, "data", None)
    return data is not None and not np.any(data)
