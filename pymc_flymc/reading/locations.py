"""Locations of effects: a number plus a weighted sum of a step's other parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from scipy.sparse import csr_array, hstack, vstack

from pymc_flymc.graphs.tools import Shapes
from pymc_flymc.reading.functions_of_variables import (
    compile_given,
    random_variables,
    step_variables,
)


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
