"""Scales of effects: powers of exponentials of a variable's unconstrained elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import LogTransform
from pymc.model.core import Model
from pytensor.graph.basic import Variable

from pymc_flymc.kernels.shared_scales import CENTRED
from pymc_flymc.reading.one_variable import compile_given, nearest, only_variable

__all__ = ["Scale", "scale_of"]

#: Where values are tried: where scales are small, in the neck of a funnel that their moves are for.
#: The smallest change of one; no two elements' changes are the same. What logarithms of scales may
#: differ by: those of an interval that begins at zero are linear up to 3e-4 there.
TRIED, CHANGE, CLOSE = -8.0, 0.25, 1e-3
#: Smallest power; of a scale that hardly falls with its variable there is none.
LEAST = 0.05


class Scale(NamedTuple):
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


def scale_of(
    parameter: Variable,
    effects: tuple[int, ...],
    model: Model,
    shapes: Mapping[Variable, tuple[int, ...]],
) -> Scale | None:
    """Return what a parameter of effects of a shape is as their scale, or None.

    `shapes` has those of the step's variables.
    """
    is_positive = isinstance(model.rvs_to_transforms.get(parameter), LogTransform)
    if is_positive and shapes.get(parameter) == ():  # nothing has to be compiled
        return Scale(parameter, CENTRED, np.zeros(math.prod(effects), np.int64))
    variable = only_variable(parameter, model, shapes)
    log_scales = None if variable is None else compile_given(pt.log(parameter), variable, model)
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
    owner = nearest(moved, shift)
    return Scale(variable, power, owner) if _are_same(moved, shift[owner]) else None


def _are_same(found: np.ndarray, expected: np.ndarray | float) -> bool:
    return bool(np.all(np.abs(found - expected) < CLOSE))
