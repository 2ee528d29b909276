"""Effects that share a scale which is sampled, written in the centred way: ``a ~ N(mu, tau)``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.kernels.shared_scales import CENTRED, NO_CENTRE, SharedScales
from pymc_flymc.reading.covariances import rows_of_factor
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.one_variable import compile_given, nearest, only_variable
from pymc_flymc.reading.scaled_variables import LocationScale, location_scale
from pymc_flymc.reading.scales import scale_of

__all__ = ["find_shared_scales"]


class _Effects(NamedTuple):
    """Effects of a scale: places of theta, those of their locations, and the scale's power."""

    places: np.ndarray
    centre: np.ndarray
    power: float


def find_shared_scales(
    model: Model, variables: Sequence[TensorVariable], layout: Layout
) -> SharedScales:
    """Find effects with one scale, of a step's variables: all that share it.

    What is found decides how well a chain moves, not where to: its rescaling is exact for any
    elements. Scales are positive variables, or what is computed of one variable so that its
    logarithm is linear where it is small: ``exp(s)``, ``2 * tau``, ``1 / sqrt(precision)``, or a
    uniform variable from zero on. Locations are zero or elements of an unbounded variable of the
    step; a random walk is around its first element. Correlated effects of groups have a scale for
    each column, in a row of their Cholesky factor. Of fewer than two effects none moves.

    Parameters
    ----------
    variables : sequence of TensorVariable
        Value variables that the step samples.
    layout : Layout
        Of these.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    shapes = dict(zip(places, layout.shapes, strict=True))
    found: dict[int, list[_Effects]] = {}
    for rv in places:
        for place, each in _effects_of(rv, model, places, shapes):
            others = found.setdefault(place, [])
            before = np.concatenate([[place], *(other.places for other in others)])
            # A row of a factor that several variables have moves once.
            new = ~np.isin(each.places, before)
            each = _Effects(each.places[new], each.centre[new], each.power)
            # What is a centre of effects, as the scale itself may be, must not move with them: a
            # move could not be undone.
            centres = np.concatenate([each.centre, *(other.centre for other in others)])
            still = not np.isin(centres, np.concatenate([before, each.places])).any()
            if len(each.places) > 1 and still:
                others.append(each)
    found = {place: of_scale for place, of_scale in found.items() if of_scale}
    sets = [each for of_scale in found.values() for each in of_scale]
    lengths = [sum(len(each.places) for each in of_scale) for of_scale in found.values()]
    none = np.empty(0, np.int64)
    return SharedScales(
        scale=np.array(list(found), np.int64),
        first=np.cumsum([0, *lengths]),
        effects=np.concatenate([none, *(each.places for each in sets)]),
        centre=np.concatenate([none, *(each.centre for each in sets)]),
        power=np.concatenate(
            [np.zeros(0), *(np.full(len(each.places), each.power) for each in sets)]
        ),
    )


def _effects_of(
    rv: Variable,
    model: Model,
    places: Mapping[Variable, slice],
    shapes: Mapping[Variable, tuple[int, ...]],
) -> Iterator[tuple[int, _Effects]]:
    """Yield the place of each scale of a variable's elements, and what moves with it."""
    term = location_scale(rv, shapes[rv], model)
    if term is None:
        return
    start = places[rv].start
    centre = _centre_of(term, start, model, places, shapes)
    if centre is None:
        return
    effects = start + term.elements.ravel()
    if term.correlated:
        factor = rows_of_factor(term.scale, model, shapes)
        if factor is None:
            return
        column = np.broadcast_to(np.arange(term.elements.shape[-1]), term.elements.shape).ravel()
        for k, row in enumerate(factor[1]):
            row, own = places[factor[0]].start + row, column == k
            moved = np.concatenate([row[:-1], effects[own]])
            around = np.concatenate([np.full(k, NO_CENTRE), centre[own]])
            yield int(row[-1]), _Effects(moved, around, CENTRED)
        return
    scale = scale_of(term.scale, term.elements.shape, model, shapes)
    if scale is None:
        return
    for element in np.unique(scale.owner):
        own = scale.owner == element
        place = places[scale.variable].start + int(element)
        yield place, _Effects(effects[own], centre[own], scale.power)


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
    variable = only_variable(term.location, model, shapes)
    if variable is None or model.rvs_to_transforms.get(variable) is not None:
        return None
    locations = compile_given(term.location, variable, model)
    if locations is None:
        return None
    # Two values of each element, by which it is known.
    values = np.random.default_rng(0).standard_normal((2, math.prod(shapes[variable])))
    seen = [
        np.broadcast_to(locations(each.reshape(shapes[variable])), term.elements.shape).ravel()
        for each in values
    ]
    element = nearest(seen[0], values[0])
    known = np.array_equal(seen, values[:, element])
    return places[variable].start + element if known else None
