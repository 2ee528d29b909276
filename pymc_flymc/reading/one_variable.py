"""What depends on a single variable of a model, as a function of that one's unconstrained value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import pytensor
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

__all__ = ["LARGEST", "compile_given", "nearest", "only_variable", "random_variables"]

#: Variables with more elements are not looked at: as scales, each of these has moves of its own.
LARGEST = 1000


def only_variable(
    parameter: Variable, model: Model, shapes: Mapping[Variable, tuple[int, ...]]
) -> Variable | None:
    """Return the only random variable that something depends on, if it is the step's, and small."""
    rvs = random_variables(parameter, model)
    small = len(rvs) == 1 and 0 < math.prod(shapes.get(rvs[0], (0,))) <= LARGEST
    return rvs[0] if small else None


def compile_given(
    graph: Variable, variable: Variable, model: Model
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function of the unconstrained value of a variable, or None if it needs others."""
    value, transform = model.rvs_to_values[variable], model.rvs_to_transforms.get(variable)
    if value.type.dtype != "float64":
        return None
    inner = value if transform is None else transform.backward(value, *variable.owner.inputs)
    (graph,) = clone_replace([graph], {variable: inner})
    if random_variables(graph, model):  # as of an interval whose ends are random
        return None
    return pytensor.function([value], graph, mode="FAST_COMPILE", on_unused_input="ignore")


def random_variables(graph: Variable, model: Model) -> list[Variable]:
    """Return the model's random variables that something is computed of, but not of these."""
    rvs = set(model.basic_RVs)
    return [v for v in ancestors([graph], rvs) if v in rvs]


def nearest(numbers: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return the place of the nearest among some to each number, shapes (n,) and (m,)."""
    order = np.argsort(among)
    between = 0.5 * (among[order][1:] + among[order][:-1])
    return order[np.searchsorted(between, numbers)]
