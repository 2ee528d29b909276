"""Effects that are multiplied by a scale, as in ``tau * z``: the non-centred parametrisation.

They are found numerically. If the scale is multiplied by a factor and the effects are divided by
it, the coefficients w(theta) do not change, however the model writes the product.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from pymc_flymc.kernels.shared_scales import NO_SCALES, NON_CENTRED, Locations, SharedScales
from pymc_flymc.reading.flat import Layout
from pymc_flymc.reading.functions_of_variables import LARGEST

#: Smaller differences of coefficients, relative to the largest, are rounding errors.
COEFFICIENT_ROUNDING = 1e-9
#: Smallest trial change of a scale's logarithm; no two elements' changes are the same.
CHANGE = 0.25


def find_non_centred_effects(
    coefficients: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, layout: Layout
) -> SharedScales:
    """Return scales, and the effects that enter coefficients only in products with them.

    A wrong guess costs speed, not correctness: moves are exact for any elements. A scale is a
    variable of one element, or a variable of several. Then each element has an effect, or a row or
    a column of effects. `coefficients` is w(theta), and no element of theta must be zero by chance.
    """
    at = coefficients(theta)
    rounding = COEFFICIENT_ROUNDING * np.max(np.abs(at), initial=1.0)

    def change(moved: np.ndarray) -> np.ndarray:
        return coefficients(moved) - at

    def is_rounding(difference: np.ndarray) -> bool:
        return bool(np.all(np.abs(difference) <= rounding))

    found = [NO_SCALES]
    for scale, shape in zip(layout.places, layout.shapes, strict=True):
        size = scale.stop - scale.start
        if not 0 < size <= LARGEST:
            continue
        once, twice = (change(_with(theta, scale, n * CHANGE)) for n in (1.0, 2.0))
        # Coefficients are a + b exp(log scale), or else this is not a scale.
        if is_rounding(once) or not is_rounding(twice - (1.0 + np.exp(CHANGE)) * once):
            continue
        shift = CHANGE * (1.0 + np.arange(size) / size)
        moved = _with(theta, scale, shift)
        of_scale, effects, owners = change(moved), [], []
        for place, effects_shape in zip(layout.places, layout.shapes, strict=True):
            for owner in _owners(shape, effects_shape) if place != scale else ():
                growth = theta[place] * np.expm1(shift[owner])
                of_effects = change(_with(theta, place, growth))
                touched = np.abs(of_effects) > rounding
                if touched.any() and is_rounding((of_effects - of_scale)[touched]):
                    moved[place] *= np.exp(-shift[owner])
                    effects.append(np.arange(place.start, place.stop))
                    owners.append(owner)
                    break
        if effects and is_rounding(change(moved)):
            found.append(_scales(scale.start, np.concatenate(effects), np.concatenate(owners)))
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
