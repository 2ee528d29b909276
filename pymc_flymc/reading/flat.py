"""The model's density as a function of one flat vector, as PyTensor graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import ParameterValueError
from pymc_flymc.graphs.affine import constant_jacobian, write_out_products
from pymc_flymc.graphs.tools import check_integers, fold_constants
from pymc_flymc.kernels.following import NO_FOLLOWING, Following
from pymc_flymc.kernels.shared_scales import NO_SCALES, SharedScales
from pymc_flymc.kernels.shifts import NO_SHIFTS, Shifts

#: Arrays that no variable changes are computed once, before any compilation, from this length on.
LONG = 1000


@dataclass(frozen=True)
class Layout:
    """Places of named variables in one flat float64 vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, variables: Sequence[TensorVariable], point: dict[str, np.ndarray]) -> Layout:
        """Return the layout of value variables, their shapes taken from a point of the model."""
        names = tuple(str(v.name) for v in variables)
        shapes = tuple(np.shape(point[name]) for name in names)
        return cls(names, shapes, tuple(v.dtype for v in variables))

    @cached_property
    def size(self) -> int:
        """Return the length of the flat vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    @cached_property
    def places(self) -> list[slice]:
        """Return the slice of each variable."""
        stops = np.cumsum([0, *(math.prod(shape) for shape in self.shapes)]).tolist()
        return [slice(start, stop) for start, stop in pairwise(stops)]

    @cached_property
    def _is_double(self) -> bool:
        return all(dtype == "float64" for dtype in self.dtypes)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return a flat float64 copy of the variables of a point."""
        flat = np.empty(self.size)
        for name, place in zip(self.names, self.places, strict=True):
            flat[place] = np.ravel(point[name])
        return flat

    def unravel(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Return arrays of the variables' exact shapes and dtypes, copied from a flat vector."""
        parts = zip(self.names, self.shapes, self.dtypes, self.places, strict=True)
        return {name: np.array(flat[at].reshape(shape), dtype) for name, shape, dtype, at in parts}

    def round(self, flat: np.ndarray) -> np.ndarray:
        """Return the flat vector after a passage through the variables' own dtypes."""
        return flat if self._is_double else self.ravel(self.unravel(flat))

    def describe(self, i: int) -> str:
        """Return the name of element i of the flat vector, such as ``beta[3]``."""
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            if i < size:
                at = np.unravel_index(i, shape) if shape else ()
                return name + (f"[{', '.join(str(int(k)) for k in at)}]" if shape else "")
            i -= size
        raise IndexError(i)


@dataclass(frozen=True)
class DensityGraph:
    """A model without its Firefly likelihoods."""

    theta: TensorVariable  #: Input: the step's variables, unconstrained, (D,).
    #: Input: variables of other step methods that the prior depends on, (F,).
    others: TensorVariable
    #: Log density of all but these likelihoods, see `ModelReading.prior_logp`.
    prior: TensorVariable
    #: w(theta) of each likelihood; `sizes` are their lengths.
    coefficients: tuple[TensorVariable, ...]
    sizes: tuple[int, ...]
    #: Jacobian of all coefficients in theta, (P, D), if they are affine.
    jacobian: np.ndarray | None = None
    scales: SharedScales = NO_SCALES  #: Scales of effects in theta, in the centred parametrisation.
    #: Directions along which no row's predictor changes, and scales that they depend on.
    shifts: Shifts = NO_SHIFTS
    following: Following = NO_FOLLOWING  #: Effects that follow scales along trajectories.

    @property
    def n_coefficients(self) -> int:
        """Return the number of coefficients of all likelihoods."""
        return sum(self.sizes)


def flatten_model(
    prior: TensorVariable,
    coefficients: Sequence[TensorVariable],
    sizes: Sequence[int],
    variables: Sequence[TensorVariable],
    layout: Layout,
    others: Sequence[TensorVariable],
    others_layout: Layout,
) -> DensityGraph:
    """Return a model's graphs in one vector of the step's variables and one of all others."""
    theta = pt.vector("theta", shape=(layout.size,), dtype="float64")
    of_others = pt.vector("others", shape=(others_layout.size,), dtype="float64")
    replacements: dict[Any, Any] = {}
    for vector, members, where in ((theta, variables, layout), (of_others, others, others_layout)):
        for variable, shape, at in zip(members, where.shapes, where.places, strict=True):
            # PyTensor cannot vectorise the reshape of an empty vector.
            piece = vector[at].reshape(shape) if at.stop > at.start else pt.zeros(shape)
            piece = piece.astype(variable.dtype)
            # The shape of the value variable may be less known than the point's.
            replacements[variable] = variable.type.filter_variable(piece)
    # Data containers are frozen at their current values.
    for node in graph_inputs([prior, *coefficients]):
        if isinstance(node, SharedVariable):
            value = pt.constant(node.get_value(borrow=True), name=node.name)
            replacements[node] = node.type.filter_variable(value)
    flat: list[Any] = graph_replace([prior, *coefficients], replacements, strict=False)
    # Parameters that a distribution refuses are reported later, by the search for the anchor.
    with suppress(ParameterValueError):
        check_integers(flat[0], "the log density of priors and potentials")
        flat[0] = fold_constants(flat[0], LONG)
    flat = write_out_products(flat)
    ws = tuple(w.astype("float64") for w in flat[1:])
    jacobians = [constant_jacobian(w, theta) for w in ws]
    known = [jacobian for jacobian in jacobians if jacobian is not None]
    together = np.concatenate(known) if len(known) == len(ws) else None
    return DensityGraph(theta, of_others, flat[0], ws, tuple(sizes), together)
