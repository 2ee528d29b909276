"""Scales of effects: powers of exponentials of a variable's unconstrained elements."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.model.core import Model
from pytensor.graph.basic import Variable

from pymc_flymc.compat.pymc import LogTransform
from pymc_flymc.graphs.tools import Shapes
from pymc_flymc.kernels.shared_scales import CENTRED
from pymc_flymc.reading.functions_of_variables import compile_given, nearest, step_variables

#: The trial value: scales are small there, in the neck of a funnel, for which moves are made.
#: The smallest trial change; no two elements' changes are the same. The tolerance for logarithms of
#: scales: for an interval that begins at zero they are linear up to 3e-4 there.
TRIED, CHANGE, CLOSE = -8.0, 0.25, 1e-3
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

    steps = np.full((2, size), [[CHANGE], [2.0 * CHANGE]])
    once, twice = map(change, steps)
    power = round(float(once[0] / CHANGE), 2)
    if abs(power) < LEAST_POWER or not _are_same(
        np.concatenate([once, twice / 2.0]), power * CHANGE
    ):
        return None
    shift = CHANGE * (1.0 + np.arange(size) / size)
    moved = change(shift) / power
    owner = nearest(moved, shift)
    return (power, owner) if _are_same(moved, shift[owner]) else None


def _are_same(found: np.ndarray, expected: np.ndarray | float) -> bool:
    return bool(np.all(np.abs(found - expected) < CLOSE))
