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

from pymc_flymc.kernels.shared_scales import CENTRED, NO_CENTRE, SharedScales
from pymc_flymc.reading.flat import Layout

__all__ = ["find_shared_scales"]

#: Distributions whose last two parameters are a location and a scale.
LOCATION_SCALE = NormalRV, StudentTRV, LaplaceRV, CauchyRV, LogisticRV


def find_shared_scales(
    model: Model, variables: Sequence[TensorVariable], layout: Layout
) -> SharedScales:
    """Find effects with one scale, of a step's variables: all that share it.

    What is found decides how well a chain moves, not where to: its rescaling is exact for any
    elements. Effects around a location that is neither zero nor a scalar of the step, or that are
    fewer than two, are left out, and so are scales that differ from effect to effect.

    Parameters
    ----------
    variables : sequence of TensorVariable
        Value variables that the step samples.
    layout : Layout
        Of these.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    scalars = {rv: at.start for rv, at in places.items() if at.stop - at.start == 1}
    found: dict[int, list[tuple[np.ndarray, int]]] = {}
    for effects, at in places.items():
        node = effects.owner
        plain = model.rvs_to_transforms.get(effects) is None
        if effects in scalars or not plain or not isinstance(node.op, LOCATION_SCALE):
            continue
        location, scale = map(_scalar, node.inputs[-2:])
        if not isinstance(model.rvs_to_transforms.get(scale), LogTransform):
            continue
        if location in scalars and model.rvs_to_transforms.get(location) is None:
            centre = scalars[location]
        elif _is_zero(location):
            centre = NO_CENTRE
        else:
            continue
        if scale in scalars:
            own = np.arange(at.start, at.stop)
            found.setdefault(scalars[scale], []).append((own, centre))
    sets = [each for of_scale in found.values() for each in of_scale]
    lengths = [sum(len(own) for own, _ in of_scale) for of_scale in found.values()]
    none = np.empty(0, np.int64)
    return SharedScales(
        scale=np.array(list(found), np.int64),
        first=np.cumsum([0, *lengths]),
        effects=np.concatenate([none, *(own for own, _ in sets)]),
        centre=np.concatenate([none, *(np.full(len(own), centre) for own, centre in sets)]),
        power=np.full(sum(lengths), CENTRED),
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
