"""What a model brings, compiled for the kernels: its density and its rows' factors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pymc  # noqa: F401 (registers the rewrite below)
import pytensor
import pytensor.tensor as pt
from numba.np.unsafe.ndarray import to_fixed_tuple
from pytensor import scalar as ps
from pytensor.compile.mode import get_mode
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.once import once
from pymc_flymc.kernels.native import (
    DENSITY,
    DENSITY_GRADIENT,
    LOG_FACTOR,
    LOG_FACTOR_GRADIENT,
    PULLBACK,
    NativeFunction,
    address_of,
    call_density_gradient,
    native_caller,
)

__all__ = [
    "DensityGraphs",
    "RowFactor",
    "compile_density",
    "compile_density_gradient",
    "compile_log_factor",
    "compile_log_factor_gradient",
    "compile_pullback",
]


#: PyMC's rewrite of its checks of parameters: where a scale has underflowed to zero, the density is
#: zero. The exception that a check raises is lost in native code, and the value with it.
OUTSIDE = "local_check_parameter_to_ninf_switch"
#: Rewrites of PyTensor that graphs of rows do without. The first two turn products of exponentials
#: into exponentials of sums: in a gradient each of K classes meets each other. The others flatten
#: sums and products: as written, a recursion over classes has a few terms for each of them, and
#: sums are made in the order in which they lose no digits.
FLATTENING = (
    "local_mul_exp_to_exp_add",
    "local_div_exp_to_mul_exp",
    "local_add_canonizer",
    "local_mul_canonizer",
    "local_greedy_distributor",
)


class DensityGraphs(NamedTuple):
    """What a model says without its rows.

    Attributes
    ----------
    theta, statistics : TensorVariable
        Inputs: float64 vectors.
    logp : TensorVariable
        Log density, a scalar.
    w : TensorVariable
        Vector of coefficients w(theta), shape (P,).
    shared : TensorVariable
        Vector of what the rows' bounds have in common, of a known shape (S,).
    """

    theta: TensorVariable
    statistics: TensorVariable
    logp: TensorVariable
    w: TensorVariable
    shared: TensorVariable


def _compile(inputs: list[Any], outputs: list[Any], without: tuple[str, ...] = ()) -> Any:
    # PyTensor's numba mode reassociates floating-point sums by default. A gap is a difference of
    # nearly equal numbers: no reassociation here.
    with pytensor.config.change_flags(numba__fastmath=False, floatX="float64"):
        function = pytensor.function(
            inputs,
            outputs,
            mode=get_mode("NUMBA").including(OUTSIDE).excluding(*without),
            trust_input=True,
            on_unused_input="ignore",
        )
        return _unwrapped(function.vm.jit_fn)


def _unwrapped(function: Any) -> Any:
    """Return the function that a function of PyTensor's numba linker calls, kept on disk like it.

    That one does nothing but call it, for the sake of PyTensor's cache, and is compiled with it:
    LLVM would optimise the whole graph twice.
    """
    outer: Any = getattr(function, "py_func", None)  # there is none if numba is switched off
    inner = getattr(outer, "__globals__", {}).get("jitable_func")
    if inner is None or outer not in CACHED_SRC_FUNCTIONS:
        return function
    graph = inner.py_func
    # Numba's file has the name of the source's, which PyTensor makes up anew in each process.
    code = graph.__code__.replace(co_filename=outer.__code__.co_filename)
    same = FunctionType(code, graph.__globals__, graph.__name__)
    CACHED_SRC_FUNCTIONS[same] = f"{CACHED_SRC_FUNCTIONS[outer]}_unwrapped"
    return numba_njit(same, final_function=True, cache=True)


def _once_for_density[T](compile: Callable[[DensityGraphs], T]) -> Callable[[DensityGraphs], T]:
    """Let a function of the graphs of a density run once for equal ones."""

    @wraps(compile)
    def compiled(graphs: DensityGraphs) -> T:
        return once(compile, graphs, inputs=graphs[:2], outputs=graphs[2:])

    return compiled


def _once_for_factor(compile: Callable[..., NativeFunction]) -> Callable[..., NativeFunction]:
    """Let a function of a row's factor run once for equal ones."""

    @wraps(compile)
    def compiled(factor: RowFactor) -> NativeFunction:
        graph = factor.inputs, [factor.value]
        return once(compile, factor, inputs=graph[0], outputs=graph[1], also=factor.sizes)

    return compiled


@_once_for_density
def compile_density(graphs: DensityGraphs) -> NativeFunction:
    """Compile a log density and its coefficients into a native function of signature `DENSITY`."""
    theta, statistics, logp, w, shared = graphs
    (n_shared,) = shared.type.shape
    # Scalars come back in registers: each array would be an allocation.
    numbers = [logp.astype("float64"), *(shared[i] for i in range(n_shared))]
    graph = _compile([theta, statistics], [w, *(pt.scalar_from_tensor(x) for x in numbers)])
    # By its address, or else LLVM would optimise the whole graph again for each model.
    address, returned = address_of(graph, DENSITY.args[:2])
    call = native_caller(DENSITY.args[:2], returned, as_tuple=True)

    def density(theta, statistics, w_out):
        values = call(address, theta, statistics)
        w, numbers = values[0], values[1:]
        # An array assignment would compile numba's whole shape-mismatch report: three seconds.
        n = w.shape[0]
        for j in range(n):
            w_out[j] = w[j]
        for j in range(n_shared):
            w_out[n + j] = numbers[1 + j]
        return numbers[0]

    return NativeFunction(density, DENSITY, graph)


@_once_for_density
def compile_density_gradient(graphs: DensityGraphs) -> tuple[NativeFunction, NativeFunction]:
    """Compile a log density with its gradient: native functions like `DENSITY_GRADIENT`, `DENSITY`.

    The second is the first without its gradient, for kernels that ask for it when they start alone:
    the graph is compiled once.
    """
    theta, statistics, logp, w, shared = graphs
    logp = logp.astype("float64")
    gradient: Any = pytensor.grad(logp, theta)
    together = pt.concatenate([w, shared]) if shared.type.shape != (0,) else w
    graph = _compile([theta, statistics], [together, gradient, pt.scalar_from_tensor(logp)])
    address, returned = address_of(graph, DENSITY_GRADIENT.args[:2])
    call = native_caller(DENSITY_GRADIENT.args[:2], returned, as_tuple=True)

    def density_gradient(theta, statistics, w_out, out):
        w, gradient, logp = call(address, theta, statistics)
        for j in range(w.shape[0]):
            w_out[j] = w[j]
        for j in range(out.shape[0]):
            out[j] = gradient[j]
        return logp

    with_gradient = NativeFunction(density_gradient, DENSITY_GRADIENT, graph)
    place = with_gradient.address

    def density(theta, statistics, w_out):
        return call_density_gradient(place, theta, statistics, w_out, np.empty_like(theta))

    return with_gradient, NativeFunction(density, DENSITY, with_gradient)


@_once_for_density
def compile_pullback(graphs: DensityGraphs) -> NativeFunction:
    """Compile the chain rule from coefficients to parameters: a native function like `PULLBACK`."""
    theta, statistics, _, w, shared = graphs
    slope = pt.vector("slope", dtype="float64")
    # A vector times the Jacobian of w(theta), which is never built.
    through: Any = pt.sum(slope[: w.shape[0]] * w)
    if shared.type.shape != (0,):
        through = through + pt.sum(slope[w.shape[0] :] * shared)
    graph = _compile([theta, statistics, slope], [pytensor.grad(through, theta)])
    address, returned = address_of(graph, PULLBACK.args[:3])
    call = native_caller(PULLBACK.args[:3], returned, as_tuple=True)

    def pullback(theta, statistics, slope, out):
        gradient = call(address, theta, statistics, slope)[0]
        for j in range(out.shape[0]):
            out[j] += gradient[j]

    return NativeFunction(pullback, PULLBACK, graph)


class RowFactor:
    """The log factor of one row as a graph of scalars.

    Without arrays inside the loop over rows, a row costs what its transcendental functions cost.

    Parameters
    ----------
    log_factor : callable
        From the graphs of the arguments of some rows, each of shape (n,), of the rows' constants
        (n, R) and of the S numbers that their bounds have in common, to that of log factors (n,).
    n_predictors, n_nuisances, n_constants, n_shared : int
    """

    def __init__(
        self,
        log_factor: Callable[[list[Any], Any, list[Any]], TensorVariable],
        n_predictors: int,
        n_nuisances: int,
        n_constants: int,
        n_shared: int,
    ) -> None:
        self.sizes = n_predictors, n_constants, n_nuisances + n_shared
        arguments = [ps.float64(f"argument_{i}") for i in range(n_predictors + n_nuisances)]
        constants = [ps.float64(f"constant_{i}") for i in range(n_constants)]
        shared = [ps.float64(f"shared_{i}") for i in range(n_shared)]
        each = [_vector([argument]) for argument in arguments]
        # A row of one element, shape (1,). What is shared comes apart: the gradient in an element
        # of a vector would be a vector for each row.
        apart = [pt.tensor_from_scalar(number) for number in shared]
        value = log_factor(each, _vector(constants)[None, :], apart)
        self.value = value.astype("float64")
        # In the order of the native function: nuisance parameters come with what is shared.
        self.common = [*arguments[n_predictors:], *shared]
        self.predictors = arguments[:n_predictors]
        self.inputs = [*self.predictors, *constants, *self.common]


@_once_for_factor
def compile_log_factor(factor: RowFactor) -> NativeFunction:
    """Compile a row's log factor into a native function of signature `LOG_FACTOR`."""
    graph = _compile(factor.inputs, [pt.scalar_from_tensor(factor.value[0])], FLATTENING)
    n_predictors, n_constants, n_common = factor.sizes

    def log_factors(eta, constants, shared, out):
        common = to_fixed_tuple(shared, n_common)
        for i in range(out.shape[0]):
            row = to_fixed_tuple(eta[i], n_predictors)
            out[i] = graph(*row, *to_fixed_tuple(constants[i], n_constants), *common)[0]

    return NativeFunction(log_factors, LOG_FACTOR)


@_once_for_factor
def compile_log_factor_gradient(factor: RowFactor) -> NativeFunction:
    """Compile a row's log factor and its derivatives: a function like `LOG_FACTOR_GRADIENT`."""
    wrt = [*factor.predictors, *factor.common]
    # From its one element, the gradient would be an array for each row.
    known: Any = {factor.value: pt.ones((1,))}
    slopes: Any = pytensor.grad(None, wrt, known_grads=known, disconnected_inputs="ignore")
    outputs = [pt.scalar_from_tensor(factor.value[0]), *slopes]
    graph = _compile(factor.inputs, outputs, FLATTENING)
    n_predictors, n_constants, n_common = factor.sizes

    def log_factor_gradients(eta, constants, shared, out, slopes, slope):
        common = to_fixed_tuple(shared, n_common)
        for i in range(out.shape[0]):
            row = to_fixed_tuple(eta[i], n_predictors)
            values = graph(*row, *to_fixed_tuple(constants[i], n_constants), *common)
            out[i] = values[0]
            for k in range(n_predictors):
                slopes[i, k] = values[1 + k]
            for j in range(n_common):
                slope[j] += values[1 + n_predictors + j]

    return NativeFunction(log_factor_gradients, LOG_FACTOR_GRADIENT)


def _vector(scalars: list[Any]) -> TensorVariable:
    if not scalars:
        return pt.zeros((0,))
    return pt.stack([pt.tensor_from_scalar(scalar) for scalar in scalars])
