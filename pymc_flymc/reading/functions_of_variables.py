"""Graphs of a step's variables, as functions of their unconstrained values."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytensor
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors

from pymc_flymc.graphs.tools import Shapes

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
    compiled = pytensor.function(values, graph, mode="FAST_COMPILE", on_unused_input="ignore")

    def function(at: Sequence[np.ndarray]) -> np.ndarray:
        return compiled(*(each.astype(v.type.dtype) for each, v in zip(at, values, strict=True)))

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
