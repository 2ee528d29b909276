"""A model's density and its rows' factors, compiled for the kernels."""

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any, NamedTuple

import pytensor
import pytensor.tensor as pt
from numba import types
from pytensor import scalar as ps
from pytensor.compile.mode import get_mode
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.numba import to_fixed_tuple
from pymc_flymc.compat.pymc import CHECKS
from pymc_flymc.compat.pytensor import cache_key, keep_as, rewrites, unwrapped
from pymc_flymc.graphs.memoise import kept_on_disk, memoised
from pymc_flymc.kernels.native import (
    DENSITY,
    GRADIENT,
    LOG_FACTOR,
    LOG_FACTOR_GRADIENT,
    N_SHARED,
    VJP,
    NativeFunction,
    NativeGraph,
    environment,
    version_of,
)

#: Rewrites of PyTensor that graphs of rows do without. The first two turn products of exponentials
#: into exponentials of sums: in a gradient these are products of any two of K classes. The others
#: flatten sums and products: as written, a recursion over classes has a few terms for each of them,
#: and the order of the sums loses no digits.
FLATTENING = rewrites(
    "local_mul_exp_to_exp_add",
    "local_div_exp_to_mul_exp",
    "local_add_canonizer",
    "local_mul_canonizer",
    "local_greedy_distributor",
)
#: Graphs of rows do not overwrite results: scalars gain nothing by it, and the check that no
#: operation reads what was overwritten takes a third of the time to rewrite a graph.
IN_PLACE = rewrites("inplace")
#: Operations on rows are not fused: a fused operation is a function of its own, which is not
#: inlined if it comes from disk, see `unwrapped`.
OF_ROWS = FLATTENING + IN_PLACE + rewrites("fusion")


class DensityGraphs(NamedTuple):
    """A model's density without its rows."""

    theta: TensorVariable  #: An input, a float64 vector, as `statistics` is.
    statistics: TensorVariable
    #: Log density of the model without its rows; `bounds` is the one of the rows' bounds.
    prior: TensorVariable
    bounds: TensorVariable
    w: TensorVariable  #: Coefficients w(theta), shape (P,).
    shared: TensorVariable  #: Numbers that the rows' bounds share, of a known shape (S,).
    #: Gradient of `bounds` in w, shape (P,), if the one in theta is left to the kernels.
    slope: TensorVariable | None


def _compile(inputs: list[Any], outputs: list[Any], without: tuple[str, ...] = ()) -> Any:
    # PyTensor's numba mode reassociates floating-point sums by default. A gap is a difference of
    # nearly equal numbers: no reassociation here.
    with pytensor.config.change_flags(numba__fastmath=False, floatX="float64"):
        function = pytensor.function(
            inputs,
            outputs,
            mode=get_mode("NUMBA").including(*rewrites(CHECKS)).excluding(*without),
            trust_input=True,
            on_unused_input="ignore",
        )
        return unwrapped(function, environment())


def _memoised_for_density[T](compile: Callable[[DensityGraphs], T]) -> Callable[[DensityGraphs], T]:
    """Return a function of the graphs of a density that runs once for equal ones."""

    @wraps(compile)
    def compiled(graphs: DensityGraphs) -> T:
        return memoised(compile, graphs, inputs=graphs[:2], outputs=_outputs(graphs))

    return compiled


def _outputs(graphs: DensityGraphs) -> list[TensorVariable]:
    return [graph for graph in graphs[2:] if graph is not None]


def _native(compile: Callable[[], Any], graphs: DensityGraphs, signature: Any) -> NativeGraph:
    """Return a native graph that `compile` compiles, or that is on disk."""
    function = kept_on_disk(compile, signature.args, graphs[:2], _outputs(graphs))
    return NativeGraph(function, signature)


def _memoised_for_factor(compile: Callable[..., NativeFunction]) -> Callable[..., NativeFunction]:
    """Return a function of a row's factor that runs once for equal ones."""

    @wraps(compile)
    def compiled(factor: RowFactor) -> NativeFunction:
        graph = factor.inputs, [factor.value]
        return memoised(compile, factor, inputs=graph[0], outputs=graph[1], also=factor.sizes)

    return compiled


@_memoised_for_density
def compile_density(graphs: DensityGraphs) -> NativeGraph:
    """Compile a log density and its coefficients: a native graph like `DENSITY`."""
    theta, statistics, prior, bounds, w, shared, _ = graphs

    def compile() -> Any:
        n_shared = shared.type.shape[0] or 0
        coefficients = w
        if n_shared > N_SHARED:
            coefficients, n_shared = _with_shared(w, shared), 0
        numbers = [
            prior + bounds,
            *(shared[i] for i in range(n_shared)),
            *[pt.constant(0.0)] * N_SHARED,
        ]
        scalars = [pt.scalar_from_tensor(_double(x)) for x in numbers[: 1 + N_SHARED]]
        return _compile([theta, statistics], [_double(coefficients), *scalars])

    return _native(compile, graphs, DENSITY)


@_memoised_for_density
def compile_density_gradient(graphs: DensityGraphs) -> NativeGraph:
    """Compile a log density with its gradient: a native graph like `GRADIENT`."""
    theta, statistics, prior, bounds, w, shared, slope = graphs

    def compile() -> Any:
        logp = _double(prior + bounds)
        of: Any = logp if slope is None else prior
        gradient: Any = pytensor.grad(of, theta, disconnected_inputs="ignore")
        vectors = [_with_shared(w, shared), gradient, pt.zeros((0,)) if slope is None else slope]
        outputs = [*map(_double, vectors), pt.scalar_from_tensor(logp)]
        return _compile([theta, statistics], outputs)

    return _native(compile, graphs, GRADIENT)


@_memoised_for_density
def compile_vjp(graphs: DensityGraphs) -> NativeGraph:
    """Compile the vector-Jacobian product of coefficients: a native graph like `VJP`."""
    theta, statistics, w, shared = graphs.theta, graphs.statistics, graphs.w, graphs.shared

    def compile() -> Any:
        slope = pt.vector("slope", dtype="float64")
        # This is a vector times the Jacobian of w(theta), which is never built.
        through: Any = pt.sum(slope[: w.shape[0]] * w)
        if shared.type.shape != (0,):
            through = through + pt.sum(slope[w.shape[0] :] * shared)
        # Moments of effects whose distributions are known, given rows, depend on no parameter.
        gradient: Any = pytensor.grad(through, theta, disconnected_inputs="ignore")
        return _compile([theta, statistics, slope], [gradient])

    return _native(compile, graphs, VJP)


def _with_shared(w: TensorVariable, shared: TensorVariable) -> TensorVariable:
    return pt.concatenate([w, shared]) if shared.type.shape != (0,) else w


def _double(variable: TensorVariable) -> TensorVariable:
    return variable.astype("float64")


class RowFactor:
    """The log factor of one row as a graph of scalars.

    Without arrays inside the loop over rows, a row costs as much as its transcendental functions.
    `log_factor` takes graphs of the arguments of some rows, each (n,), of their constants (n, R)
    and of the S numbers that their bounds share, and returns the graph of the log factors (n,).
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
        # A row of one element, shape (1,). Shared numbers are separate: the gradient in an element
        # of a vector would be a vector for each row.
        apart = [pt.tensor_from_scalar(number) for number in shared]
        value = log_factor(each, _vector(constants)[None, :], apart)
        self.value = value.astype("float64")
        # This is the order of the native function: nuisance parameters come before shared numbers.
        self.common = [*arguments[n_predictors:], *shared]
        self.predictors = arguments[:n_predictors]
        self.inputs = [*self.predictors, *constants, *self.common]


@_memoised_for_factor
def compile_log_factor(factor: RowFactor) -> NativeFunction:
    """Compile a row's log factor into a native function of signature `LOG_FACTOR`."""

    def compile() -> Any:
        return _compile(factor.inputs, [pt.scalar_from_tensor(factor.value[0])], OF_ROWS)

    return _for_rows(_log_factors, compile, factor, LOG_FACTOR)


@_memoised_for_factor
def compile_log_factor_gradient(factor: RowFactor) -> NativeFunction:
    """Compile a row's log factor and its derivatives: a function like `LOG_FACTOR_GRADIENT`."""

    def compile() -> Any:
        wrt = [*factor.predictors, *factor.common]
        # The gradient of its one element would be an array for each row.
        known: Any = {factor.value: pt.ones((1,))}
        slopes: Any = pytensor.grad(None, wrt, known_grads=known, disconnected_inputs="ignore")
        outputs = [pt.scalar_from_tensor(factor.value[0]), *slopes]
        return _compile(factor.inputs, outputs, OF_ROWS)

    return _for_rows(_log_factor_gradients, compile, factor, LOG_FACTOR_GRADIENT)


# `_for_rows` replaces what follows.
_graph: Any = None
_n_predictors = _n_constants = _n_common = 0


def _log_factors(eta, constants, shared, out):  # type: ignore[no-untyped-def]
    common = to_fixed_tuple(shared, _n_common)
    for i in range(out.shape[0]):
        row = to_fixed_tuple(eta[i], _n_predictors)
        out[i] = _graph(*row, *to_fixed_tuple(constants[i], _n_constants), *common)[0]


def _log_factor_gradients(eta, constants, shared, out, slopes, slope):  # type: ignore[no-untyped-def]
    common = to_fixed_tuple(shared, _n_common)
    for i in range(out.shape[0]):
        row = to_fixed_tuple(eta[i], _n_predictors)
        values = _graph(*row, *to_fixed_tuple(constants[i], _n_constants), *common)
        out[i] = values[0]
        for k in range(_n_predictors):
            slopes[i, k] = values[1 + k]
        for j in range(_n_common):
            slope[j] += values[1 + _n_predictors + j]


def _for_rows(
    loop: Any, compile: Callable[[], Any], factor: RowFactor, signature: Any
) -> NativeFunction:
    """Return a compiled loop over rows around the graph of one, kept on disk like the graph."""
    numbers = [types.float64] * len(factor.inputs)
    graph = kept_on_disk(compile, numbers, factor.inputs, [factor.value], factor.sizes)
    # Numba identifies functions by their code and their closures, whose content differs between
    # processes: graph and sizes are globals of a copy, and part of the key.
    names = dict(zip(("_n_predictors", "_n_constants", "_n_common"), factor.sizes, strict=True))
    own = FunctionType(loop.__code__, {**globals(), **names, "_graph": graph}, loop.__name__)
    key = cache_key(graph)
    if key is not None:
        keep_as(own, f"{key}_{factor.sizes}_{version_of(__file__)}")
    return NativeFunction(own, signature, factor.sizes, cached=key is not None)


def _vector(scalars: list[Any]) -> TensorVariable:
    if not scalars:
        return pt.zeros((0,))
    return pt.stack([pt.tensor_from_scalar(scalar) for scalar in scalars])
