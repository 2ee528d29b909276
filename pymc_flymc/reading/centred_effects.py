"""Effects that share a sampled scale, in the centred parametrisation: ``a ~ N(mu, tau)``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import Shapes
from pymc_flymc.kernels.shared_scales import CENTRED, NO_SCALES, Locations, SharedScales
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.functions_of_variables import (
    compile_given,
    random_variables,
    step_variables,
)
from pymc_flymc.reading.locations import Around, locations_of
from pymc_flymc.reading.scaled_variables import location_scale
from pymc_flymc.reading.scales import scales_of
from pymc_flymc.reporting import log


class _Effects(NamedTuple):
    """Effects with one scale: their indices in theta, their locations, and the scale's power."""

    places: np.ndarray
    around: Around
    power: float


def find_shared_scales(
    model: Model, variables: Sequence[TensorVariable], layout: Layout
) -> SharedScales:
    """Return the effects that share a scale, for each scale among the step's value variables.

    A wrong guess costs speed, not correctness: rescaling is exact for any elements. A scale is
    a positive variable, or an expression whose logarithm is linear in an unconstrained value where
    the scale is small: ``exp(s)``, ``2 * tau``, ``1 / sqrt(precision)``, a uniform variable with
    lower limit zero, and products of these. A location is a number, or affine in unbounded
    variables of the step, such as a regression of the effects. The location of a random walk is its
    first element. Correlated effects of groups have a scale for each column: it is in a row of
    their Cholesky factor, or it is a standard deviation of a computed covariance.
    """
    places = {model.values_to_rvs[v]: at for v, at in zip(variables, layout.places, strict=True)}
    shapes = dict(zip(places, layout.shapes, strict=True))
    found: dict[int, list[_Effects]] = {}
    for rv in places:
        for place, each in _effects_of(rv, model, places, shapes):
            others = found.setdefault(place, [])
            before = np.concatenate([[place], *(other.places for other in others)])
            # Several variables may share a row of a factor: it moves only once.
            new = ~np.isin(each.places, before)
            each = _Effects(each.places[new], each.around.of(new), each.power)
            # For reversible moves, locations must not depend on the scale or effects that move with
            # it.
            around = Around.joined([each.around, *(other.around for other in others)])
            still = not np.isin(around.weights.indices, np.concatenate([before, each.places])).any()
            if len(each.places) and still:
                others.append(each)
    found = {place: of_scale for place, of_scale in found.items() if of_scale}
    sets = [each for of_scale in found.values() for each in of_scale]
    if not sets:
        return NO_SCALES
    lengths = [sum(len(each.places) for each in of_scale) for of_scale in found.values()]
    offset, weights = Around.joined([each.around for each in sets])
    return SharedScales(
        scale=np.array(list(found), np.int64),
        first=np.cumsum([0, *lengths]),
        effects=np.concatenate([each.places for each in sets]),
        locations=Locations(
            offset=offset,
            first=weights.indptr.astype(np.int64),
            place=weights.indices.astype(np.int64),
            weight=weights.data.astype(np.float64),
        ),
        power=np.concatenate([np.full(len(each.places), each.power) for each in sets]),
    )


def _effects_of(
    rv: Variable, model: Model, places: Mapping[Variable, slice], shapes: Shapes
) -> Iterator[tuple[int, _Effects]]:
    """Yield the index of each scale of a variable's elements, and the effects that follow it."""
    term = location_scale(rv, shapes[rv], model)
    if term is None:
        return
    shape = term.elements.shape
    factor = rows_of_factor(term.scale, model, shapes) if term.correlated else None
    scales = []
    if factor is None:
        # Without a sampled factor, correlations stay the same when standard deviations grow.
        scales = scales_of(term.standard_deviations, shape, model, shapes)
        if not scales:
            return
    size = max(place.stop for place in places.values())
    start = places[rv].start
    effects = start + term.elements.ravel()
    if term.origin is None:
        around = locations_of(term.location, shape, model, places, shapes, size)
    else:
        around = Around.elements(start + term.origin.ravel(), size)
    if around is None:
        parts = random_variables(term.location, model) if term.location is not None else []
        sampled = [v for v in parts if v in model.free_RVs]
        elsewhere = [str(v.name) for v in sampled if v not in places]
        if elsewhere:
            log.warning(
                f"a scale of {rv.name!r} does not move together with these effects, because "
                f"another step samples their location {', '.join(elsewhere)}: chains may miss "
                "small scales. Let this step sample it, too"
            )
        return
    if factor is not None:
        column = np.broadcast_to(np.arange(shape[-1]), shape).ravel()
        for k, row in enumerate(factor[1]):
            row, own = places[factor[0]].start + row, column == k
            both = Around.joined([Around.zero(k, size), around.of(own)])
            yield int(row[-1]), _Effects(np.concatenate([row[:-1], effects[own]]), both, CENTRED)
    for scale in scales:
        for element in np.unique(scale.owner):
            own = scale.owner == element
            place = places[scale.variable].start + int(element)
            yield place, _Effects(effects[own], around.of(own), scale.power)


#: Trial change of a scale's logarithm.
CHANGE = 0.3


def rows_of_factor(
    covariance: Variable, model: Model, shapes: Shapes
) -> tuple[Variable, list[np.ndarray]] | None:
    """Return the variable with a Cholesky factor, and the indices of its rows in it, or None."""
    # The factor is packed row by row, and each row ends with the logarithm of its diagonal element.
    # Multiplying a row of the factor by a number multiplies the same row and column of the
    # covariance.
    variables = step_variables(covariance, model, shapes)
    of = compile_given(covariance, variables, model) if len(variables) == 1 else None
    if of is None:
        return None
    (variable,) = variables
    n = int(covariance.type.shape[-1] or 0)
    if shapes[variable] != (n * (n + 1) // 2,):
        return None
    rows = np.split(np.arange(n * (n + 1) // 2), np.cumsum(np.arange(1, n)))
    value = np.random.default_rng(0).standard_normal(shapes[variable])
    before = of([value]).reshape(-1, n, n)
    rounding = np.sqrt(np.finfo(before.dtype).eps)
    for k, row in enumerate(rows):
        moved, factor = value.copy(), np.ones(n)
        moved[row[:-1]] *= np.exp(CHANGE)
        moved[row[-1]] += CHANGE
        factor[k] = np.exp(CHANGE)
        expected = before * np.outer(factor, factor)
        if not np.allclose(of([moved]).reshape(-1, n, n), expected, rounding, rounding):
            return None
    return variable, rows
