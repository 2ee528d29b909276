"""A model with its likelihoods expanded to second order, for set-up work."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import graph_replace
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import CHECKS
from pymc_flymc.compat.pytensor import rewrites
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.memoise import memoised
from pymc_flymc.graphs.tools import plain_function, rewritten
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.expansion import AffineQuadratics, collapsed_quadratic, quadratic_size
from pymc_flymc.reporting import doing

#: Rewrites before derivatives are computed.
SIMPLER = rewrites("inline_ofg_expansion", "canonicalize", CHECKS)
#: Number of coefficients from which on matrices of all derivatives are computed column by column:
#: in one graph they take memory for the parameters times the coefficients.
MANY = 1000
#: Number of parameters up to which that takes less time than to rewrite such a graph, also if
#: a search computes about a hundred of them, as for effects of groups.
FEW = 12
#: Step of central differences in unconstrained parameters of size 1: their error and the rounding
#: error are about its square.
STEP = float(np.cbrt(np.finfo(np.float64).eps))


class ExpandedDensity:
    """``prior(theta) + quadratic(w(theta))`` and its derivatives, for set-up work.

    With several likelihoods there is a quadratic in the coefficients of each, whose statistics come
    one after the other; w is the vector of all coefficients. Graphs are evaluated in Python:
    nothing is compiled. With affine coefficients matrices take the place of the quadratics' graphs.
    A model without gradients is refused.

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
        self.n_coefficients, self._theta = graph.n_coefficients, graph.theta
        self._w, self._constant, self._affine = (
            pt.join(0, *graph.coefficients),
            graph.jacobian,
            None,
        )
        self._inputs: list[Any] = [graph.theta]
        logp: Any = graph.prior.astype("float64")
        if graph.jacobian is not None:
            self._affine = AffineQuadratics(graph.jacobian, graph.sizes)
        else:
            self._inputs.append(statistics)
            own: Any = statistics
            for w, n in zip(graph.coefficients, graph.sizes, strict=True):
                logp = logp + collapsed_quadratic(w, own, n)
                own = own[quadratic_size(own, n) :]
        known: dict[Any, Any] = {graph.others: pt.constant(others)}
        values: Any = graph_replace([logp], known, strict=False)
        # Simpler graphs take less time to differentiate, twice, and to evaluate.
        value: Any = rewritten(values, SIMPLER)[0]
        try:
            self._gradient: Any = pytensor.grad(value, graph.theta, disconnected_inputs="ignore")
        except (NotImplementedError, TypeError) as error:
            raise UnsupportedModelError(
                "PyTensor has no gradient of the model's log density, which the set-up needs, as "
                f"NUTS does: {error!r}"
            ) from error
        value_and_gradient: list[Any] = [value, self._gradient]
        self._function: Any = plain_function(self._inputs, value_and_gradient)
        self._coefficients: Any = plain_function([graph.theta], self._w)
        self.error: Exception | None = None

    @property
    def is_affine(self) -> bool:
        """Return whether the coefficients are affine in theta."""
        return self._affine is not None

    def __call__(self, theta: np.ndarray, statistics: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient, (D,)."""
        self.error = None
        try:
            value, gradient = self._function(*self._arguments(theta, statistics))
        except Exception as error:  # exceptions may be of a user's own type
            self.error = error
            return -np.inf, np.full(len(theta), np.nan)
        if self._affine is not None:
            more, slope = self._affine(self.coefficients(theta), statistics)
            value, gradient = float(value) + more, gradient + slope
        return float(value), gradient

    def coefficients(self, theta: np.ndarray) -> np.ndarray:
        """Return w(theta), (P,)."""
        return _array(self._coefficients, (self.n_coefficients,), theta)

    def pushforward(self, theta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the derivative of w along v, (P,)."""
        if self._constant is not None:
            return np.asarray(self._constant @ v)
        if self._pushforward is None:
            return _difference(self.coefficients, theta, v)
        return _array(self._pushforward, (self.n_coefficients,), theta, v)

    def hessian_times(self, theta: np.ndarray, statistics: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the product of the Hessian with a vector, (D,)."""
        if self._hessian_times is None:
            return _difference(lambda t: self(t, statistics)[1], theta, v)
        product = _array(self._hessian_times, v.shape, *self._arguments(theta, statistics), v)
        return product if self._affine is None else product + self._affine.times(statistics, v)

    def hessian(self, theta: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Return the Hessian, (D, D)."""
        if self._hessian is None:
            columns = [self.hessian_times(theta, statistics, v) for v in np.eye(len(theta))]
            found = np.stack(columns)
        else:
            found = _array(self._hessian, 2 * theta.shape, *self._arguments(theta, statistics))
            if self._affine is not None:
                found += self._affine.hessian(statistics)
        return 0.5 * (found + found.T)

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Return the Jacobian of w, (P, D)."""
        if self._constant is not None:
            return self._constant
        if self._jacobian is None:
            return np.stack([self.pushforward(theta, v) for v in np.eye(len(theta))], axis=1)
        return _array(self._jacobian, (self.n_coefficients, len(theta)), theta)

    def _arguments(self, theta: np.ndarray, statistics: np.ndarray) -> tuple[np.ndarray, ...]:
        return (theta,) if self.is_affine else (theta, statistics)

    @cached_property
    def _direction(self) -> Any:
        return pt.vector("v", shape=self._theta.type.shape, dtype="float64")

    # Each of these is a function, or None if there are no such derivatives, or no such graph.

    @cached_property
    def _hessian_times(self) -> Any:
        v = self._direction

        def product() -> Any:
            along: Any = pt.sum(self._gradient * v)
            return pytensor.grad(along, self._theta, disconnected_inputs="ignore")

        return _function_if_there([*self._inputs, v], product, len(self._inputs))

    @cached_property
    def _pushforward(self) -> Any:
        # It is made of two pullbacks: second derivatives are needed, too.
        theta, v = self._theta, self._direction
        along = partial(pytensor.gradient.pushforward, self._w, theta, v)
        return _function_if_there([theta, v], along, 1)

    @cached_property
    def _hessian(self) -> Any:
        return self._of_all(self._gradient, self._inputs)

    @cached_property
    def _jacobian(self) -> Any:
        return self._of_all(self._w, [self._theta])

    def _of_all(self, vector: TensorVariable, inputs: list[Any]) -> Any:
        """Return all derivatives of a vector in theta as one function, or None, see `MANY`."""
        (n_parameters,) = self._theta.type.shape
        if n_parameters <= FEW or self.n_coefficients > MANY:
            return None

        def graph() -> Any:
            # The gradients of quadratics are written out: PyTensor cannot vectorise them otherwise.
            (of,) = rewritten([vector], rewrites("inline_ofg_expansion"))
            all_of: Any = pytensor.gradient.jacobian(
                of, self._theta, vectorize=True, disconnected_inputs="ignore"
            )
            # Most of the time these take is for zeros, and for products with ones.
            return rewritten([all_of], rewrites("canonicalize"))[0]

        return _function_if_there(inputs, graph)


def expanded_density(graph: DensityGraph, others: np.ndarray) -> ExpandedDensity:
    """Return the expanded density of a model, the same object for an equal graph."""
    inputs, outputs = (graph.theta, graph.others), (graph.prior, *graph.coefficients)
    also = graph.sizes, others.tobytes()
    return memoised(ExpandedDensity, graph, others, inputs=inputs, outputs=outputs, also=also)


def _array(function: Any, shape: tuple[int, ...], *arguments: np.ndarray) -> np.ndarray:
    """Return a function's value, of a known shape, or NaN if it raises an error."""
    try:
        return np.asarray(function(*arguments))
    except Exception:  # exceptions may be of a user's own type
        return np.full(shape, np.nan)


def _function_if_there(inputs: list[Any], graph: Callable[[], Any], n_fixed: int = 0) -> Any:
    """Return a function of a graph of derivatives, or None if an op has none."""
    try:
        return plain_function(inputs, graph(), n_fixed)
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
