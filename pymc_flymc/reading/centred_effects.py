"""Effects that share a scale which is sampled, written in the centred way: ``a ~ N(mu, tau)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.logprob.transforms import LogTransform
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.kernels.shared_scales import CENTRED, NO_CENTRE, SharedScales
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.scaled_variables import LocationScale, location_scale

__all__ = ["find_shared_scales"]

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
    uniform variable from zero on. Locations are zero or elements of an unbounded variable of the
    step; a random walk is around its first element. Of fewer than two effects none moves.

    Parameters
    ----------
    variables : sequence of TensorVariable
        Value variables that the step samples.
    layout : Layout
        Of these.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    shapes = dict(zip(places, layout.shapes, strict=True))
    found: dict[int, list[tuple[np.ndarray, np.ndarray, float]]] = {}
    for rv, at in places.items():
        term = location_scale(rv, shapes[rv], model)
        if term is None or term.elements.size < 2:
            continue
        centre = _centre_of(term, at.start, model, places, shapes)
        scale = _scale_of(term.scale, term.elements.shape, model, shapes)
        if centre is None or scale is None:
            continue
        effects = at.start + term.elements.ravel()
        for element in np.unique(scale.owner):
            own = scale.owner == element
            others = found.setdefault(places[scale.variable].start + int(element), [])
            # What is a centre of effects may not move with them.
            moved = [each for each, *_ in others]
            still = not np.isin(centre[own], np.concatenate([effects[own], *moved])).any()
            still &= not any(np.isin(each, effects[own]).any() for _, each, _ in others)
            if own.sum() > 1 and still:
                others.append((effects[own], centre[own], scale.power))
    found = {place: of_scale for place, of_scale in found.items() if of_scale}
    sets = [each for of_scale in found.values() for each in of_scale]
    lengths = [sum(len(own) for own, *_ in of_scale) for of_scale in found.values()]
    none = np.empty(0, np.int64)
    return SharedScales(
        scale=np.array(list(found), np.int64),
        first=np.cumsum([0, *lengths]),
        effects=np.concatenate([none, *(own for own, *_ in sets)]),
        centre=np.concatenate([none, *(centre for _, centre, _ in sets)]),
        power=np.concatenate([np.zeros(0), *(np.full(len(own), p) for own, _, p in sets)]),
    )


def _centre_of(
    term: LocationScale,
    start: int,
    model: Model,
    places: Mapping[Variable, slice],
    shapes: Mapping[Variable, tuple[int, ...]],
) -> np.ndarray | None:
    """Return the place in theta of each effect's location, or None where there is no such place."""
    if term.origin is not None:
        return start + term.origin.ravel()
    if term.location is None:
        return np.full(term.elements.size, NO_CENTRE)
    variable = _only_one(term.location, model, shapes)
    if variable is None or model.rvs_to_transforms.get(variable) is not None:
        return None
    locations = _compile(term.location, variable, model)
    if locations is None:
        return None
    # Two values of each element, by which it is known.
    values = np.random.default_rng(0).standard_normal((2, math.prod(shapes[variable])))
    seen = [
        np.broadcast_to(locations(each.reshape(shapes[variable])), term.elements.shape).ravel()
        for each in values
    ]
    element = np.argmin(np.abs(seen[0][:, None] - values[0]), axis=1)
    known = np.array_equal(seen, values[:, element])
    return places[variable].start + element if known else None


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
    variable = _only_one(parameter, model, shapes)
    log_scales = None if variable is None else _compile(pt.log(parameter), variable, model)
    if variable is None or log_scales is None:
        return None
    size = math.prod(shapes[variable])

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


def _only_one(
    parameter: Variable, model: Model, shapes: Mapping[Variable, tuple[int, ...]]
) -> Variable | None:
    """Return the only random variable that something depends on, if it is the step's, and small."""
    rvs = _random(parameter, model)
    small = len(rvs) == 1 and 0 < math.prod(shapes.get(rvs[0], (0,))) <= LARGEST
    return rvs[0] if small else None


def _compile(
    graph: Variable, variable: Variable, model: Model
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function of the unconstrained value of a variable, or None if it needs others."""
    value, transform = model.rvs_to_values[variable], model.rvs_to_transforms.get(variable)
    if value.type.dtype != "float64":
        return None
    inner = value if transform is None else transform.backward(value, *variable.owner.inputs)
    (graph,) = clone_replace([graph], {variable: inner})
    if _random(graph, model):  # as of an interval whose ends are random
        return None
    return pytensor.function([value], graph, mode="FAST_COMPILE", on_unused_input="ignore")


def _random(graph: Variable, model: Model) -> list[Variable]:
    """Return the model's random variables that something is computed of, but not of these."""
    rvs = set(model.basic_RVs)
    return [v for v in ancestors([graph], rvs) if v in rvs]


def _are_same(found: np.ndarray, expected: np.ndarray | float) -> bool:
    return bool(np.all(np.abs(found - expected) < CLOSE))
