"""A model with its likelihoods expanded to second order, for set-up work."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import OPT_FAST_RUN, Mode
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_array

from pymc_flymc.compat.pymc import CHECKS
from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.tools import SPLIT, rewritten
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.expansion import (
    collapsed_quadratic,
    dense_curvatures,
    quadratic_size,
)
from pymc_flymc.reporting import doing

#: Rewrites before derivatives are computed.
SIMPLER = rewrites("inline_ofg_expansion", "canonicalize", CHECKS)
#: Number of coefficients from which on it pays to treat them as long vectors.
MANY = 1000
#: Largest share of nonzero elements of a Jacobian for which products use sparse matrices.
SPARSE = 0.1
#: Step of central differences in unconstrained parameters of size 1: their error and the rounding
#: error are about its square.
STEP = float(np.cbrt(np.finfo(np.float64).eps))


class ExpandedDensity:
    """``prior(theta) + quadratic(w(theta))`` and its gradient, for set-up work.

    With several likelihoods there is a quadratic in the coefficients of each, whose statistics come
    one after the other; w is the vector of all coefficients. PyTensor's Python linker evaluates it:
    about 0.3 ms per call, and nothing to compile. A model without gradients is refused.

    If PyTensor has no second derivatives of the model, differences of gradients replace them. They
    need not be exact: second derivatives determine the anchor and the shape of proposals, on which
    the distribution of draws does not depend.

    If the model's graph raises an error at a point, by an ``Assert`` say, its value there is -inf
    and all else NaN, because the set-up evaluates points that are not draws. `error` is the error
    of the last evaluation of the value, if there was one.
    """

    @doing("differentiating the model")
    def __init__(self, graph: DensityGraph, others: np.ndarray) -> None:
        statistics = pt.vector("statistics", dtype="float64")
        logp: Any = graph.prior
        own: Any = statistics
        for w, n in zip(graph.coefficients, graph.sizes, strict=True):
            logp = logp + collapsed_quadratic(w, own, n)
            own = own[quadratic_size(own, n) :]
        known: dict[Any, Any] = {graph.others: pt.constant(others)}
        values: Any = graph_replace([logp, graph.prior], known, strict=False)
        # Simpler graphs take less time to differentiate, twice, and to evaluate.
        value, self._prior = rewritten(values, SIMPLER)
        try:
            gradient: Any = pytensor.grad(value, graph.theta, disconnected_inputs="ignore")
        except (NotImplementedError, TypeError) as error:
            raise UnsupportedModelError(
                "PyTensor has no gradient of the model's log density, which the set-up needs, as "
                f"NUTS does: {error!r}"
            ) from error
        # The quadratic's own gradient is written out: otherwise PyTensor cannot vectorise it.
        (gradient,) = rewritten([gradient], rewrites("inline_ofg_expansion"))
        self.n_coefficients, self._sizes = graph.n_coefficients, graph.sizes
        self._graphs = graph.theta, statistics, gradient
        self._w, self._constant = pt.join(0, *graph.coefficients), graph.jacobian
        self._function = self._compile([graph.theta, statistics], [value, gradient])
        self.error: Exception | None = None
        self._coefficients = self._compile([graph.theta], self._w)

    def _compile(self, inputs: list[Any], outputs: Any) -> Any:
        # Few rewrites take the least time. For long vectors it pays to remove the broadcasts of
        # which gradients consist, but not to fuse loops, because fused loops run in Python here.
        optimizer: Any = "fast_compile"
        if self.n_coefficients > MANY:
            optimizer = OPT_FAST_RUN.excluding(*rewrites("fusion", "inplace"))
        # After all other rewrites, which may flatten nested sums.
        mode = Mode(linker="py", optimizer=optimizer).register((SPLIT, 1000))
        mode = mode.including(*rewrites(CHECKS))
        return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")

    @cached_property
    def _hessian(self) -> Any:
        theta, statistics, gradient = self._graphs
        graph = _if_there(lambda: _jacobian(gradient, theta))
        if graph is not None:
            return self._compile([theta, statistics], graph)
        return lambda t, known: np.stack([self._change(t, known, v) for v in np.eye(len(t))])

    @cached_property
    def _graph_of_prior(self) -> Any:
        """Return the Hessian without the quadratics, or None without second derivatives."""
        theta = self._graphs[0]

        def graph() -> Any:
            gradient: Any = pytensor.grad(self._prior, theta, disconnected_inputs="ignore")
            return _jacobian(gradient, theta)

        return _if_there(graph)

    @cached_property
    def _hessian_of_prior(self) -> Any:
        return self._compile([self._graphs[0]], self._graph_of_prior)

    @cached_property
    def _jacobians(self) -> list[Any]:
        """Return the Jacobians of each likelihood's coefficients, which are affine."""
        assert self._constant is not None
        parts = np.split(self._constant, np.cumsum(self._sizes)[:-1])
        return [
            csr_array(part) if np.count_nonzero(part) < SPARSE * part.size else part
            for part in parts
        ]

    @cached_property
    def _hessian_times(self) -> Any:
        theta, statistics, gradient = self._graphs
        v = pt.vector("v", shape=theta.type.shape, dtype="float64")
        along: Any = pt.sum(gradient * v)
        product = _if_there(lambda: pytensor.grad(along, theta, disconnected_inputs="ignore"))
        if product is None:
            return self._change
        return self._compile([theta, statistics, v], product)

    def _change(self, theta: np.ndarray, statistics: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the Hessian times v by differences of the gradient."""
        return _difference(lambda t: self(t, statistics)[1], theta, v)

    @cached_property
    def _jacobian(self) -> Any:
        theta = self._graphs[0]
        return self._compile([theta], _jacobian(self._w, theta))

    @cached_property
    def _pushforward(self) -> Any:
        theta = self._graphs[0]
        v = pt.vector("v", shape=theta.type.shape, dtype="float64")
        # It is made of two pullbacks: second derivatives are needed, too.
        change = _if_there(lambda: pytensor.gradient.pushforward(self._w, theta, v))
        if change is None:
            return lambda theta, v: _difference(self.coefficients, theta, v)
        return self._compile([theta, v], change)

    @property
    def is_affine(self) -> bool:
        """Return whether the coefficients are affine in theta."""
        return self._constant is not None

    def __call__(self, theta: np.ndarray, statistics: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient, (D,)."""
        self.error = None
        try:
            with np.errstate(all="ignore"):  # a search may try points at which numbers overflow
                value, gradient = self._function(theta, statistics)
        except Exception as error:  # exceptions may be of a user's own type
            self.error = error
            return -np.inf, np.full(len(theta), np.nan)
        return float(value), gradient

    def coefficients(self, theta: np.ndarray) -> np.ndarray:
        """Return w(theta), (P,)."""
        return _array(self._coefficients, (self.n_coefficients,), theta)

    def pushforward(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the derivative of w along v, (P,)."""
        if self._constant is not None:
            return np.asarray(self._constant @ v)
        return _array(self._pushforward, (self.n_coefficients,), theta, v)

    def hessian_times(self, theta: np.ndarray, statistics: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian with a vector, (D,)."""
        return _array(self._hessian_times, v.shape, theta, statistics, v)

    def hessian(self, theta: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Return the Hessian, (D, D)."""
        affine = self._constant is not None
        matrices = dense_curvatures(statistics, self._sizes) if affine else None
        if matrices is not None and self._graph_of_prior is not None:
            # With affine coefficients a quadratic's Hessian is a product of matrices. A graph of it
            # would consist of operations on vectors, one row for each parameter.
            hessian = _array(self._hessian_of_prior, 2 * theta.shape, theta)
            for matrix, jacobian in zip(matrices, self._jacobians, strict=True):
                hessian -= 2.0 * (jacobian.T @ (jacobian.T @ matrix).T)
        # With many coefficients, compute columns one by one: together they take O(D P) memory.
        elif self.n_coefficients > MANY:
            hessian = np.stack(
                [self.hessian_times(theta, statistics, v) for v in np.eye(len(theta))]
            )
        else:
            hessian = _array(self._hessian, 2 * theta.shape, theta, statistics)
        return 0.5 * (hessian + hessian.T)

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Return the Jacobian of w, (P, D)."""
        if self._constant is not None:
            return self._constant
        if self.n_coefficients > MANY:
            return np.stack([self.pushforward(theta, v) for v in np.eye(len(theta))], axis=1)
        return _array(self._jacobian, (self.n_coefficients, len(theta)), theta)


def expanded_density(graph: DensityGraph, others: np.ndarray) -> ExpandedDensity:
    """Return the expanded density of a model, the same object for an equal graph."""
    inputs, outputs = (graph.theta, graph.others), (graph.prior, *graph.coefficients)
    also = graph.sizes, others.tobytes()
    return memoised(ExpandedDensity, graph, others, inputs=inputs, outputs=outputs, also=also)


def _array(function: Any, shape: tuple[int, ...], *arguments: np.ndarray) -> np.ndarray:
    """Return a function's value, of a known shape, or NaN if it raises an error."""
    try:
        with np.errstate(all="ignore"):  # as for values: numbers may overflow
            return np.array(function(*arguments))
    except Exception:  # exceptions may be of a user's own type
        return np.full(shape, np.nan)


def _jacobian(of: TensorVariable, wrt: TensorVariable) -> Any:
    return pytensor.gradient.jacobian(of, wrt, vectorize=True, disconnected_inputs="ignore")


def _if_there(graph: Callable[[], Any]) -> Any:
    """Return a graph of derivatives, or None if an op has none."""
    try:
        return graph()
    except (NotImplementedError, TypeError):  # a null type or no gradient
        return None


def _difference(
    of: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Return the derivative of a function along v, by a central difference."""
    if not v.any():
        return np.zeros_like(of(theta))
    step = STEP / np.max(np.abs(v) / np.maximum(np.abs(theta), 1.0))
    return (of(theta + step * v) - of(theta - step * v)) / (2.0 * step)


def nearby(theta: np.ndarray) -> np.ndarray:
    """Return a point near theta, where no product of parameters vanishes by chance."""
    return theta + 0.1 * np.random.default_rng(20141104).standard_normal(len(theta))
