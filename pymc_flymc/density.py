"""The model's density as a function of one flat vector, as PyTensor graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import OPT_FAST_RUN, Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compilation import OUTSIDE
from pymc_flymc.statistics import collapsed_quadratic

if TYPE_CHECKING:
    from pymc_flymc.bounds.base import Bound
    from pymc_flymc.likelihoods import Likelihood

__all__ = ["DensityGraph", "Layout", "Surrogate", "flatten_model"]

#: Coefficients from which on it pays to treat them as long vectors.
MANY = 1000


@dataclass(frozen=True)
class Layout:
    """How named variables lie in one flat float64 vector.

    Attributes
    ----------
    names : tuple of str
    shapes : tuple of tuple of int
    dtypes : tuple of str
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, variables: Sequence[TensorVariable], point: dict[str, np.ndarray]) -> Layout:
        """Layout of value variables, their shapes taken from a point of the model."""
        names = tuple(str(v.name) for v in variables)
        shapes = tuple(np.shape(point[name]) for name in names)
        return cls(names, shapes, tuple(v.dtype for v in variables))

    @cached_property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(math.prod(shape) for shape in self.shapes)

    @cached_property
    def _places(self) -> list[slice]:
        """Where each variable lies."""
        stops = np.cumsum([0, *(math.prod(shape) for shape in self.shapes)]).tolist()
        return [slice(start, stop) for start, stop in pairwise(stops)]

    @cached_property
    def _is_double(self) -> bool:
        return all(dtype == "float64" for dtype in self.dtypes)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Flat float64 copy of the variables of a point."""
        flat = np.empty(self.size)
        for name, place in zip(self.names, self._places, strict=True):
            flat[place] = np.ravel(point[name])
        return flat

    def unravel(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays of the exact shapes and dtypes of the variables, copied from a flat vector."""
        parts = zip(self.names, self.shapes, self.dtypes, self._places, strict=True)
        return {name: np.array(flat[at].reshape(shape), dtype) for name, shape, dtype, at in parts}

    def round(self, flat: np.ndarray) -> np.ndarray:
        """Return the flat vector after a passage through the variables' own dtypes."""
        return flat if self._is_double else self.ravel(self.unravel(flat))

    def describe(self, i: int) -> str:
        """Name of element i of the flat vector, such as ``beta[3]``."""
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            if i < size:
                at = np.unravel_index(i, shape) if shape else ()
                return name + (f"[{', '.join(str(int(k)) for k in at)}]" if shape else "")
            i -= size
        raise IndexError(i)


@dataclass(frozen=True)
class DensityGraph:
    """A model without its Firefly likelihood.

    Attributes
    ----------
    theta : TensorVariable
        Input, shape (D,): the step's variables, unconstrained.
    others : TensorVariable
        Input, shape (F,): variables of other step methods that the rest of the model depends on.
    rest : TensorVariable
        Scalar: log density of everything but the likelihood (priors with their Jacobians,
        potentials, other observed variables).
    coefficients : TensorVariable
        Shape (P,): w(theta).
    n_coefficients : int
    """

    theta: TensorVariable
    others: TensorVariable
    rest: TensorVariable
    coefficients: TensorVariable
    n_coefficients: int

    def with_bound(
        self, bound: Bound | None, likelihood: Likelihood, n_others: int
    ) -> tuple[TensorVariable, ...]:
        """Graphs of the rest of the model and the collapsed bound.

        Parameters
        ----------
        bound : Bound or None
            Its statistics come first in `statistics`.
        likelihood : Likelihood
        n_others : int
            Length of `others`, which come last in `statistics`.

        Returns
        -------
        theta, statistics : TensorVariable
            Inputs.
        logp, coefficients, shared : TensorVariable
            Log density, w(theta), and what the rows' bounds have in common.
        """
        statistics = pt.vector("statistics", dtype="float64")
        logp: Any = self.rest
        if n_others:
            tail = pt.specify_shape(statistics[statistics.shape[0] - n_others :], (n_others,))
            known: dict[Any, Any] = {self.others: tail}
            logp = graph_replace([logp], known, strict=False)[0]
        shared: Any = pt.zeros((0,))
        if bound is not None:
            log_bound, shared = bound.collapsed(
                likelihood, self.coefficients, statistics, self.n_coefficients
            )
            logp = logp + log_bound
        return self.theta, statistics, logp, self.coefficients, shared


def flatten_model(
    rest: TensorVariable,
    coefficients: TensorVariable,
    n_coefficients: int,
    variables: Sequence[TensorVariable],
    layout: Layout,
    others: Sequence[TensorVariable],
    others_layout: Layout,
) -> DensityGraph:
    """Express a model's graphs in one vector for the step's variables and one for all others."""
    theta = pt.vector("theta", shape=(layout.size,), dtype="float64")
    rest_of = pt.vector("others", shape=(others_layout.size,), dtype="float64")
    replacements: dict[Any, Any] = {}
    for vector, members, where in ((theta, variables, layout), (rest_of, others, others_layout)):
        start = 0
        for variable, shape in zip(members, where.shapes, strict=True):
            stop = start + math.prod(shape)
            piece = vector[start:stop].reshape(shape).astype(variable.dtype)
            # The value variable may know less of its shape than the point does.
            replacements[variable] = variable.type.filter_variable(piece)
            start = stop
    # Data containers are frozen at the values they have now.
    for node in graph_inputs([rest, coefficients]):
        if isinstance(node, SharedVariable):
            value = pt.constant(node.get_value(borrow=True), name=node.name)
            replacements[node] = node.type.filter_variable(value)
    flat: list[Any] = graph_replace([rest, coefficients], replacements, strict=False)
    flat_rest, flat_w = flat
    return DensityGraph(theta, rest_of, flat_rest, flat_w.astype("float64"), n_coefficients)


class Surrogate:
    """``rest(theta) + quadratic(w(theta))`` and its gradient, for set-up work.

    Evaluated by PyTensor's Python linker: some 0.3 ms a call, and nothing to compile.

    Parameters
    ----------
    graph : DensityGraph
    others : ndarray, shape (F,)
        Values of the variables of other step methods.
    """

    def __init__(self, graph: DensityGraph, others: np.ndarray) -> None:
        statistics = pt.vector("statistics", dtype="float64")
        logp = graph.rest + collapsed_quadratic(
            graph.coefficients, statistics, graph.n_coefficients
        )
        known: dict[Any, Any] = {graph.others: pt.constant(others)}
        value: Any = graph_replace([logp], known, strict=False)[0]
        gradient: Any = pytensor.grad(value, graph.theta, disconnected_inputs="ignore")
        # What the quadratic says of its gradient, written out, or else PyTensor cannot vectorise.
        gradient = rewrite_graph(gradient, include=("inline_ofg_expansion",))
        self.n_coefficients = graph.n_coefficients
        self._graphs = graph, statistics, value, gradient
        self._function = self._compile([graph.theta, statistics], [value, gradient])
        self._coefficients = self._compile([graph.theta], graph.coefficients)

    def _compile(self, inputs: list[Any], outputs: Any) -> Any:
        # Few rewrites are made quickest. For long vectors it pays to make those that remove the
        # broadcasts which gradients consist of, and not to fuse: fused loops are Python's own here.
        optimizer: Any = "fast_compile"
        if self.n_coefficients > MANY:
            optimizer = OPT_FAST_RUN.excluding("fusion", "inplace")
        mode = Mode(linker="py", optimizer=optimizer).including(OUTSIDE)
        return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")

    @cached_property
    def _hessian(self) -> Any:
        graph, statistics, _, gradient = self._graphs
        return self._compile([graph.theta, statistics], _jacobian(gradient, graph.theta))

    @cached_property
    def _hessian_times(self) -> Any:
        graph, statistics, _, gradient = self._graphs
        v = pt.vector("v", shape=graph.theta.type.shape, dtype="float64")
        product = pytensor.grad(pt.sum(gradient * v), graph.theta, disconnected_inputs="ignore")
        return self._compile([graph.theta, statistics, v], product)

    @cached_property
    def _jacobian(self) -> Any:
        graph = self._graphs[0]
        return self._compile([graph.theta], _jacobian(graph.coefficients, graph.theta))

    @cached_property
    def _pushforward(self) -> Any:
        graph = self._graphs[0]
        v = pt.vector("v", shape=graph.theta.type.shape, dtype="float64")
        change = pytensor.gradient.pushforward(graph.coefficients, graph.theta, v)
        return self._compile([graph.theta, v], change)

    def __call__(self, theta: np.ndarray, statistics: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient, shape (D,)."""
        value, gradient = self._function(theta, statistics)
        return float(value), gradient

    def coefficients(self, theta: np.ndarray) -> np.ndarray:
        """w(theta), shape (P,)."""
        return np.array(self._coefficients(theta))

    def pushforward(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the derivative of w along v, shape (P,)."""
        return np.array(self._pushforward(theta, v))

    def hessian_times(self, theta: np.ndarray, statistics: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Product of the Hessian with a vector, shape (D,)."""
        return np.array(self._hessian_times(theta, statistics, v))

    def hessian(self, theta: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Hessian, shape (D, D)."""
        # With many coefficients one column after the other: all at once they take O(D P) memory.
        if self.n_coefficients > MANY:
            hessian = np.stack(
                [self.hessian_times(theta, statistics, v) for v in np.eye(len(theta))]
            )
        else:
            hessian = np.array(self._hessian(theta, statistics))
        return 0.5 * (hessian + hessian.T)

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Jacobian of w, shape (P, D)."""
        if self.n_coefficients > MANY:
            return np.stack([self.pushforward(theta, v) for v in np.eye(len(theta))], axis=1)
        return np.array(self._jacobian(theta))


def _jacobian(of: TensorVariable, wrt: TensorVariable) -> Any:
    return pytensor.gradient.jacobian(of, wrt, vectorize=True, disconnected_inputs="ignore")
