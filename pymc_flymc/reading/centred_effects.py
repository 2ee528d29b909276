"""Effects that share a scale which is sampled, written in the centred way: ``a ~ N(mu, tau)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.logprob.transforms import LogTransform
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import CauchyRV, LaplaceRV, LogisticRV, NormalRV, StudentTRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.kernels.shared_scales import CENTRED, NO_CENTRE, SharedScales
from pymc_flymc.reading.flat import Layout

__all__ = ["find_shared_scales"]

#: Distributions whose last two parameters are a location and a scale.
LOCATION_SCALE = NormalRV, StudentTRV, LaplaceRV, CauchyRV, LogisticRV
#: Where values are tried: where scales are small, in the neck of a funnel that their moves are for.
#: The smallest change of one; no two elements' changes are the same. What logarithms of scales may
#: differ by: those of an interval that begins at zero are linear up to 3e-4 there.
TRIED, CHANGE, CLOSE = -8.0, 0.25, 1e-3
#: Smallest power; of a scale that hardly falls with its variable there is none.
LEAST = 0.05
#: Variables with more elements are not looked at: each of these has moves of its own.
LARGEST = 1000


class _Scale(NamedTuple):
    """Scales of effects: powers of exponentials of a variable's unconstrained elements.

    Attributes
    ----------
    variable : Variable
    power : float
    owner : ndarray, shape (n,), int64
        The element that each effect belongs to.
    """

    variable: Variable
    power: float
    owner: np.ndarray


def find_shared_scales(
    model: Model, variables: Sequence[TensorVariable], layout: Layout
) -> SharedScales:
    """Find effects with one scale, of a step's variables: all that share it.

    What is found decides how well a chain moves, not where to: its rescaling is exact for any
    elements. Scales are positive variables, or what is computed of one variable so that its
    logarithm is linear where it is small: ``exp(s)``, ``2 * tau``, ``1 / sqrt(precision)``, or a
    uniform variable from zero on. Effects around a location
    that is neither zero nor a scalar of the step, or that are fewer than two, are left out.

    Parameters
    ----------
    variables : sequence of TensorVariable
        Value variables that the step samples.
    layout : Layout
        Of these.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    shapes = dict(zip(places, layout.shapes, strict=True))
    scalars = {rv: at.start for rv, at in places.items() if at.stop - at.start == 1}
    found: dict[int, list[tuple[np.ndarray, int, float]]] = {}
    for effects, at in places.items():
        node = effects.owner
        plain = model.rvs_to_transforms.get(effects) is None
        if effects in scalars or not plain or not isinstance(node.op, LOCATION_SCALE):
            continue
        location, parameter = map(_scalar, node.inputs[-2:])
        if location in scalars and model.rvs_to_transforms.get(location) is None:
            centre = scalars[location]
        elif _is_zero(location):
            centre = NO_CENTRE
        else:
            continue
        scale = _scale_of(parameter, shapes[effects], model, shapes)
        if scale is None:
            continue
        for element in np.unique(scale.owner):
            own = at.start + np.flatnonzero(scale.owner == element)
            if len(own) > 1:
                place = places[scale.variable].start + int(element)
                found.setdefault(place, []).append((own, centre, scale.power))
    sets = [each for of_scale in found.values() for each in of_scale]
    lengths = [sum(len(own) for own, *_ in of_scale) for of_scale in found.values()]
    none = np.empty(0, np.int64)
    return SharedScales(
        scale=np.array(list(found), np.int64),
        first=np.cumsum([0, *lengths]),
        effects=np.concatenate([none, *(own for own, *_ in sets)]),
        centre=np.concatenate([none, *(np.full(len(own), centre) for own, centre, _ in sets)]),
        power=np.concatenate([np.zeros(0), *(np.full(len(own), p) for own, _, p in sets)]),
    )


def _scale_of(
    parameter: Variable,
    effects: tuple[int, ...],
    model: Model,
    shapes: Mapping[Variable, tuple[int, ...]],
) -> _Scale | None:
    """Return what a parameter of effects of a shape is as their scale, or None.

    `shapes` has those of the step's variables.
    """
    is_positive = isinstance(model.rvs_to_transforms.get(parameter), LogTransform)
    if is_positive and shapes.get(parameter) == ():  # nothing has to be compiled
        return _Scale(parameter, CENTRED, np.zeros(math.prod(effects), np.int64))
    of = list(_random(parameter, model))
    if len(of) != 1 or of[0] not in shapes:
        return None
    (variable,) = of
    log_scales = _compile_log_scales(parameter, variable, model)
    size = math.prod(shapes[variable])
    if log_scales is None or not 0 < size <= LARGEST:
        return None

    def change(by: np.ndarray) -> np.ndarray:
        tried = (np.full(size, TRIED), TRIED + by)
        with np.errstate(all="ignore"):
            at, moved = (log_scales(each.reshape(shapes[variable])) for each in tried)
        return np.broadcast_to(moved - at, effects).ravel()

    steps = np.full((2, size), [[CHANGE], [2.0 * CHANGE]])
    once, twice = map(change, steps)
    power = round(float(once[0] / CHANGE), 2)
    if abs(power) < LEAST or not _are_same(np.concatenate([once, twice / 2.0]), power * CHANGE):
        return None
    shift = CHANGE * (1.0 + np.arange(size) / size)
    moved = change(shift) / power
    owner = np.argmin(np.abs(moved[:, None] - shift), axis=1)
    return _Scale(variable, power, owner) if _are_same(moved, shift[owner]) else None


def _compile_log_scales(
    parameter: Variable, variable: Variable, model: Model
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return logarithms of scales by the unconstrained value of their variable."""
    value, transform = model.rvs_to_values[variable], model.rvs_to_transforms.get(variable)
    if value.type.dtype != "float64":
        return None
    inner = value if transform is None else transform.backward(value, *variable.owner.inputs)
    (graph,) = clone_replace([pt.log(parameter)], {variable: inner})
    if any(_random(graph, model)):  # as of an interval whose ends are random
        return None
    return pytensor.function([value], graph, mode="FAST_COMPILE", on_unused_input="ignore")


def _random(graph: Variable, model: Model) -> Iterator[Variable]:
    """Yield the model's random variables that something is computed of, and no others' parents."""
    rvs = set(model.basic_RVs)
    return (v for v in ancestors([graph], rvs) if v in rvs)


def _are_same(found: np.ndarray, expected: np.ndarray | float) -> bool:
    return bool(np.all(np.abs(found - expected) < CLOSE))


def _scalar(parameter: Variable) -> Variable:
    """Return the scalar that a parameter of all elements is made of, or the parameter itself."""
    node = parameter.owner
    if node is not None and isinstance(node.op, DimShuffle) and node.inputs[0].type.ndim == 0:
        return node.inputs[0]
    return parameter


def _is_zero(variable: Variable) -> bool:
    data = getattr(variable, "data", None)
    return data is not None and not np.any(data)
