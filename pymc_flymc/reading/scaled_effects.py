"""Effects of groups that share a sampled scale, in either parametrisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import ZeroSumTransform
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, graph_replace
from pytensor.graph.traversal import ancestors
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
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_array, hstack, vstack

from pymc_flymc.compat.pymc import (
    CARRV,
    LogTransform,
    MoyalRV,
    RandomWalkRV,
    SkewNormalRV,
    ZeroSumNormalRV,
)
from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.graphs.tools import Shapes, evaluate, plain_function, rewritten
from pymc_flymc.kernels.shared_scales import (
    CENTRED,
    NO_SCALES,
    NON_CENTRED,
    Locations,
    SharedScales,
)
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reporting import log

#: Larger variables are not considered: as a scale, each element has its own moves.
LARGEST = 1000


def step_variables(graph: Variable, model: Model, shapes: Shapes) -> list[Variable]:
    """Return the random variables of a graph, or none unless all are small ones of the step."""
    rvs = random_variables(graph, model)
    small = all(0 < math.prod(shapes.get(rv, (0,))) <= LARGEST for rv in rvs)
    return rvs if small else []


def compile_given(
    graph: Variable, variables: Sequence[Variable], model: Model
) -> Callable[[Sequence[np.ndarray]], np.ndarray] | None:
    """Compile a graph as a function of variables' unconstrained values; None if it needs others."""
    values = [model.rvs_to_values[each] for each in variables]
    constrained = {}
    for variable, value in zip(variables, values, strict=True):
        transform = model.rvs_to_transforms.get(variable)
        inputs = variable.owner.inputs
        constrained[variable] = value if transform is None else transform.backward(value, *inputs)
    (graph,) = clone_replace([graph], constrained)
    if random_variables(graph, model):  # random ends of an interval, say
        return None
    of_values = plain_function(values, graph)

    def function(at: Sequence[np.ndarray]) -> np.ndarray:
        return of_values(*(each.astype(v.type.dtype) for each, v in zip(at, values, strict=True)))

    return function


def random_variables(graph: Variable, model: Model) -> list[Variable]:
    """Return the random variables that a graph depends on directly, not through one another."""
    rvs = set(model.basic_RVs)
    return [v for v in ancestors([graph], rvs) if v in rvs]


def nearest(numbers: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return, for each of n numbers, the index of the nearest among m numbers."""
    order = np.argsort(among)
    between = 0.5 * (among[order][1:] + among[order][:-1])
    return order[np.searchsorted(between, numbers)]


class Around(NamedTuple):
    """Locations of n effects: offsets (n,), and weights (n, D) of the elements of theta."""

    offset: np.ndarray
    weights: csr_array

    def of(self, some: np.ndarray) -> Around:
        """Return the locations of some effects, given by a mask or by their indices."""
        return Around(self.offset[some], self.weights[some])

    @classmethod
    def joined(cls, sets: Sequence[Around]) -> Around:
        """Return the locations of all sets, one after the other."""
        weights = csr_array(vstack([each.weights for each in sets]))
        return cls(np.concatenate([each.offset for each in sets]), weights)

    @classmethod
    def zero(cls, n: int, size: int) -> Around:
        """Return n locations that are zero, for `size` elements of theta."""
        return cls(np.zeros(n), csr_array((n, size)))

    @classmethod
    def elements(cls, places: np.ndarray, size: int) -> Around:
        """Return locations that are elements of theta."""
        n = len(places)
        return cls(np.zeros(n), csr_array((np.ones(n), places, np.arange(n + 1)), (n, size)))


def locations_of(
    location: Variable | None,
    effects: tuple[int, ...],
    model: Model,
    places: Mapping[Variable, slice],
    shapes: Shapes,
    size: int,
) -> Around | None:
    """Return the locations (None is zero) of effects, or None if they are not affine in theta."""
    n = math.prod(effects)
    if location is None:
        return Around.zero(n, size)
    variables = step_variables(location, model, shapes)
    if not variables and random_variables(location, model):
        return None
    if any(model.rvs_to_transforms.get(each) is not None for each in variables):
        return None
    function = compile_given(location, variables, model)
    if function is None:
        return None
    lengths = [math.prod(shapes[each]) for each in variables]

    def at(x: np.ndarray) -> np.ndarray:
        parts = np.split(x, np.cumsum(lengths)[:-1]) if variables else []
        given = [part.reshape(shapes[v]) for part, v in zip(parts, variables, strict=True)]
        return np.broadcast_to(function(given), effects).ravel().astype(np.float64)

    offset = at(np.zeros(sum(lengths)))
    columns = [csr_array((at(unit) - offset)[:, None]) for unit in np.eye(sum(lengths))]
    if not columns:
        return Around(offset, csr_array((n, size)))
    weights = csr_array(hstack(columns))
    # The affine function must be right at a general point, too, up to rounding.
    x = np.random.default_rng(0).standard_normal(len(columns), np.float32).astype(np.float64)
    terms = np.abs(offset) * (1.0 + np.abs(x).sum()) + np.abs(weights) @ np.abs(x)
    precision = np.finfo(location.type.dtype).eps
    if np.any(np.abs(at(x) - offset - weights @ x) > precision * (4 + len(columns)) * terms):
        return None
    in_theta = np.concatenate([np.arange(places[v].start, places[v].stop) for v in variables])
    return Around(
        offset, csr_array((weights.data, in_theta[weights.indices], weights.indptr), (n, size))
    )


#: The trial value: scales are small there, in the neck of a funnel, for which moves are made.
#: The smallest trial change; no two elements' changes are the same. The tolerance for logarithms of
#: scales: for an interval that begins at zero they are linear up to 3e-4 there.
TRIED, SCALE_CHANGE, CLOSE = -8.0, 0.25, 1e-3
#: Smallest power: a number that changes little with a variable is not a scale of it.
LEAST_POWER = 0.05


class Scale(NamedTuple):
    """Scales of effects: powers of exponentials of a variable's unconstrained elements."""

    variable: Variable
    power: float
    owner: np.ndarray  #: The element that each effect belongs to, (n,).


def scales_of(
    parameter: Variable, effects: tuple[int, ...], model: Model, shapes: Shapes
) -> list[Scale]:
    """Return the scales in a parameter of effects: each factor of a product is one."""
    is_positive = isinstance(model.rvs_to_transforms.get(parameter), LogTransform)
    if is_positive and shapes.get(parameter) == ():  # no compilation is needed
        return [Scale(parameter, CENTRED, np.zeros(math.prod(effects), np.int64))]
    variables = step_variables(parameter, model, shapes)
    log_scales = compile_given(pt.log(parameter), variables, model) if variables else None
    if log_scales is None:
        return []
    found = []
    for k, variable in enumerate(variables):

        def at(values: np.ndarray, k: int = k) -> np.ndarray:
            # The others stay fixed: factors of a product cancel in differences of its logarithm.
            given = [np.zeros(shapes[each]) for each in variables]
            given[k] = values.reshape(given[k].shape)
            with np.errstate(all="ignore"):
                return np.broadcast_to(log_scales(given), effects).ravel()

        scale = _power_and_owner(at, math.prod(shapes[variable]))
        if scale is not None:
            found.append(Scale(variable, *scale))
    return found


def _power_and_owner(
    log_scales: Callable[[np.ndarray], np.ndarray], size: int
) -> tuple[float, np.ndarray] | None:
    """Return the power with which scales follow a variable, and the element that each follows."""

    def change(by: np.ndarray) -> np.ndarray:
        return log_scales(TRIED + by) - log_scales(np.full(size, TRIED))

    steps = np.full((2, size), [[SCALE_CHANGE], [2.0 * SCALE_CHANGE]])
    once, twice = map(change, steps)
    power = round(float(once[0] / SCALE_CHANGE), 2)
    if abs(power) < LEAST_POWER or not _are_same(
        np.concatenate([once, twice / 2.0]), power * SCALE_CHANGE
    ):
        return None
    shift = SCALE_CHANGE * (1.0 + np.arange(size) / size)
    moved = change(shift) / power
    owner = nearest(moved, shift)
    return (power, owner) if _are_same(moved, shift[owner]) else None


def _are_same(found: np.ndarray, expected: np.ndarray | float) -> bool:
    return bool(np.all(np.abs(found - expected) < CLOSE))


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
CENTRED_CHANGE = 0.3


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
        moved[row[:-1]] *= np.exp(CENTRED_CHANGE)
        moved[row[-1]] += CENTRED_CHANGE
        factor[k] = np.exp(CENTRED_CHANGE)
        expected = before * np.outer(factor, factor)
        if not np.allclose(of([moved]).reshape(-1, n, n), expected, rounding, rounding):
            return None
    return variable, rows


#: Smaller differences of coefficients, relative to the largest, are rounding errors.
COEFFICIENT_ROUNDING = 1e-9
#: Elements of larger variables are not tried one by one.
FEW = 20
#: Smallest trial change of a scale's logarithm; no two elements' changes are the same.
NON_CENTRED_CHANGE = 0.25


def find_non_centred_effects(
    coefficients: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, layout: Layout
) -> SharedScales:
    """Return scales, and the effects that enter coefficients only in products with them.

    A wrong guess costs speed, not correctness: moves are exact for any elements. A scale is a
    variable of one element, or a variable of several. Then each element has an effect, or a row or
    a column of effects, or variables of its own, as in ``tau[0] * z``. `coefficients` is w(theta),
    and no element of theta must be zero by chance.
    """
    at = coefficients(theta)
    rounding = COEFFICIENT_ROUNDING * np.max(np.abs(at), initial=1.0)

    def change(moved: np.ndarray) -> np.ndarray:
        return coefficients(moved) - at

    def is_rounding(difference: np.ndarray) -> bool:
        return bool(np.all(np.abs(difference) <= rounding))

    def find(scale: slice, shape: tuple[int, ...]) -> SharedScales:
        size = scale.stop - scale.start
        once, twice = (change(_with(theta, scale, n * NON_CENTRED_CHANGE)) for n in (1.0, 2.0))
        # Coefficients are a + b exp(log scale), or else this is not a scale.
        if is_rounding(once) or not is_rounding(twice - (1.0 + np.exp(NON_CENTRED_CHANGE)) * once):
            return NO_SCALES
        shift = NON_CENTRED_CHANGE * (1.0 + np.arange(size) / size)
        moved = _with(theta, scale, shift)
        of_scale, effects, owners = change(moved), [], []
        for place, effects_shape in zip(layout.places, layout.shapes, strict=True):
            is_other = place.stop <= scale.start or scale.stop <= place.start
            for owner in _owners(shape, effects_shape) if is_other else ():
                growth = theta[place] * np.expm1(shift[owner])
                of_effects = change(_with(theta, place, growth))
                touched = np.abs(of_effects) > rounding
                if touched.any() and is_rounding((of_effects - of_scale)[touched]):
                    moved[place] *= np.exp(-shift[owner])
                    effects.append(np.arange(place.start, place.stop))
                    owners.append(owner)
                    break
        if not effects or not is_rounding(change(moved)):
            return NO_SCALES
        return _scales(scale.start, np.concatenate(effects), np.concatenate(owners))

    found = [NO_SCALES]
    for place, shape in zip(layout.places, layout.shapes, strict=True):
        size = place.stop - place.start
        if not 0 < size <= LARGEST:
            continue
        found.append(find(place, shape))
        if 1 < size <= FEW and found[-1] is NO_SCALES:
            elements = range(place.start, place.stop)
            found += [find(slice(i, i + 1), ()) for i in elements]
    return SharedScales.joined(found)


def _with(theta: np.ndarray, place: slice, added: np.ndarray | float) -> np.ndarray:
    """Return a copy of theta with something added to a variable."""
    moved = theta.copy()
    moved[place] += added
    return moved


def _owners(shape: tuple[int, ...], effects: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield possible assignments of a variable's effects to elements of a scale, flat."""
    number = np.arange(math.prod(shape))
    if number.size == 1:
        yield np.zeros(math.prod(effects), np.int64)
        return
    before, after = effects[: len(shape)], effects[max(len(effects) - len(shape), 0) :]
    if after == shape:
        yield np.broadcast_to(number.reshape(shape), effects).ravel()
    if before == shape != effects:
        columns = number.reshape(shape + (1,) * (len(effects) - len(shape)))
        yield np.broadcast_to(columns, effects).ravel()


def _scales(start: int, effects: np.ndarray, owners: np.ndarray) -> SharedScales:
    """Return a scale for each owner that has effects."""
    order = np.argsort(owners, kind="stable")
    own, counts = np.unique(owners, return_counts=True)
    return SharedScales(
        scale=start + own,
        first=np.concatenate([[0], np.cumsum(counts)]),
        effects=effects[order],
        locations=Locations.zero(len(effects)),
        power=np.full(len(effects), NON_CENTRED),
    )
