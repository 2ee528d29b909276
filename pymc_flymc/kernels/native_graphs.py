"""The density of a model as PyTensor compiles it, called by its address.

Native code that all models share copies the results of a graph. A wrapper of each graph that did so
would take as long to compile as a small graph itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from pymc_flymc.compat.numba import DISABLE_JIT, address_of, native_caller
from pymc_flymc.kernels.layout import POWERS
from pymc_flymc.kernels.native import Int32Vector, Vector, kernel, kernel_part, record_type, vector

#: Number of scalars that a density returns in addition to its coefficients and value: what the
#: bound shares with all rows at this theta (nothing, or two powers of a radius), and zeros. Scalars
#: come in registers; an array would have to be allocated.
N_SHARED = len(POWERS)

#: Message on outputs of a wrong length, which would overrun an array; no graph here has them.
LENGTHS = "a density's coefficients or gradient do not have the length of a chain's"

# A result may be a view: it is read by its strides.
_vector = types.Array(types.float64, 1, "A")
_numbers = [types.float64] * (1 + N_SHARED)

#: ``(theta, statistics) -> w, log density, shared...``
DENSITY = types.Tuple([_vector, *_numbers])(vector(), vector())
#: ``(theta, statistics) -> w and shared numbers, gradient in theta, slope, log density``: the
#: slope in w, if there is any, times the Jacobian of w has to be added to the gradient.
GRADIENT = types.Tuple([_vector, _vector, _vector, types.float64])(vector(), vector())
#: ``(theta, statistics, slope) -> gradient in theta``: the vector-Jacobian product of a slope
#: in the coefficients, and in what follows them.
VJP = types.Tuple([_vector])(vector(), vector(), vector())


def _caller(signature: Any) -> Callable[..., Any]:
    return native_caller(signature.args, signature.return_type, as_tuple=True)


_density, _gradient, _vjp = map(_caller, (DENSITY, GRADIENT, VJP))


@kernel_part
def call_density(address, theta, statistics, w_out):
    """Return the log density at theta; write the coefficients and the shared numbers."""
    w, log_density, first, second = _density(address, theta, statistics)
    # An array assignment would compile numba's whole shape-mismatch report: three seconds.
    n = w.shape[0]
    if n > w_out.shape[0]:
        raise ValueError(LENGTHS)
    for j in range(n):
        w_out[j] = w[j]
    for j in range(n, w_out.shape[0]):
        w_out[j] = first if j == n else second
    return log_density


class Jacobian(NamedTuple):
    """Jacobian of coefficients that are affine in theta: a sparse matrix by rows."""

    start: Int32Vector  #: Where each row begins, (P + 1,); empty if the Jacobian is not constant.
    place: Int32Vector  #: Columns of the elements.
    value: Vector

    @classmethod
    def of(cls, matrix: np.ndarray | None) -> Jacobian:
        """Return the elements of a matrix (P, D) that are not zero."""
        if matrix is None:
            return cls(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))
        row, place = np.nonzero(matrix)
        start = np.searchsorted(row, np.arange(len(matrix) + 1))
        return cls(start.astype(np.int32), place.astype(np.int32), matrix[row, place])


@kernel_part
def add_times(jacobian, slope, out):
    """Add slope times the Jacobian to out."""
    for j in range(jacobian.start.shape[0] - 1):
        for k in range(jacobian.start[j], jacobian.start[j + 1]):
            out[jacobian.place[k]] += jacobian.value[k] * slope[j]


@kernel_part
def call_density_gradient(address, jacobian, theta, statistics, w_out, out):
    """Return `call_density`, and write the gradient in theta, too."""
    w, gradient, slope, log_density = _gradient(address, theta, statistics)
    if w.shape[0] != w_out.shape[0] or gradient.shape[0] != out.shape[0]:
        raise ValueError(LENGTHS)
    for j in range(w.shape[0]):
        w_out[j] = w[j]
    for j in range(out.shape[0]):
        out[j] = gradient[j]
    if slope.shape[0] > 0:
        add_times(jacobian, slope, out)
    return log_density


@kernel_part
def call_vjp(address, jacobian, theta, statistics, slope, out):
    """Add the gradient in theta that a slope in the coefficients implies."""
    if jacobian.start.shape[0] > 0:
        add_times(jacobian, slope, out)
    else:
        add_vjp(address, theta, statistics, slope, out)


@kernel_part
def add_vjp(address, theta, statistics, slope, out):
    """Add a graph's gradient in theta for a slope in the coefficients, or other outputs."""
    (gradient,) = _vjp(address, theta, statistics, slope)
    if gradient.shape[0] != out.shape[0]:
        raise ValueError(LENGTHS)
    for j in range(out.shape[0]):
        out[j] += gradient[j]


class NativeGraph:
    """A compiled graph that kernels call by its `address`, which is valid while it exists."""

    def __init__(self, graph: Any, signature: Any) -> None:
        self._graph, self._signature = graph, signature
        self.address, returned = address_of(graph, signature.args)
        if not DISABLE_JIT and not _same(returned, signature.return_type):
            raise TypeError(f"a graph returns {returned} instead of {signature.return_type}")

    def __call__(self, *arguments: Any) -> Any:
        """Call a density from Python, with the arguments that kernels give after the address."""
        return _entry(self._signature)(self.address, *arguments)


def _same(returned: Any, expected: Any) -> bool:
    """Return whether types are the same in memory: an array's layout is in its strides."""
    plain = [_vector if isinstance(t, types.Array) and _is_vector(t) else t for t in returned]
    return plain == list(expected)


def _is_vector(kind: types.Array) -> bool:
    return kind.ndim == 1 and kind.dtype == types.float64


@functools.cache
def _entry(signature: Any) -> Any:
    """Return the compiled function that Python calls for the signature of a density."""
    assert signature in (DENSITY, GRADIENT), "vector-Jacobian products are for kernels"
    number, v = types.float64, vector()
    if signature == DENSITY:

        @kernel(number(types.int64, v, v, v))
        def density(address, theta, statistics, w_out):
            return call_density(address, theta, statistics, w_out)

        return density

    @kernel(number(types.int64, record_type(Jacobian), v, v, v, v))
    def density_gradient(address, jacobian, theta, statistics, w_out, out):
        return call_density_gradient(address, jacobian, theta, statistics, w_out, out)

    return density_gradient
