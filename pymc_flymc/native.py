"""Compile once, load from disk ever after: the rules of the native code.

Kernels are compiled for *signatures*, not for models. What a model brings (its density, its
bound) is compiled by PyTensor and handed over by address, so that a kernel is
loaded from numba's disk cache whatever the model is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytensor
import pytensor.tensor as pt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.config import DISABLE_JIT  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numba.np.unsafe.ndarray import to_fixed_tuple
from pytensor import scalar as ps
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "DENSITY",
    "LOG_FACTOR",
    "SOURCE_FINGERPRINT",
    "NativeFunction",
    "borrow",
    "call_density",
    "call_log_factor",
    "compile_density",
    "compile_log_factor",
    "matrix",
    "named_tuple_type",
    "read_only",
    "vector",
]


def vector(dtype: types.Type = types.float64) -> types.Array:
    """Numba type of a C-contiguous vector."""
    return types.Array(dtype, 1, "C")


matrix = types.Array(types.float64, 2, "C")

#: ``density(theta, statistics, w_out) -> log density``; writes the coefficients w(theta), followed
#: by what the bound shares with all rows at this theta (nothing, or a radius, say).
DENSITY = types.float64(vector(), vector(), vector())
#: ``log_factor(eta, constants, shared, out)``; one value for each of the rows handed in, from their
#: predictors and constants, a row each, and what all rows share.
LOG_FACTOR = types.void(matrix, matrix, vector(), vector())


class NativeFunction:
    """A compiled function that a kernel calls by its address.

    Numba's own first-class functions cost 30 microseconds a kernel call to hand over; an address is
    an integer. The object must outlive every use of its address.

    Attributes
    ----------
    address : int
        Of a function in the C calling convention.
    """

    def __init__(self, function: Callable[..., Any], signature: Any, callee: Any = None) -> None:
        self.function = numba.njit(function)
        self._callee = callee  # kept alive, for it is called by its address
        self.address, _ = _address(self.function, signature.args)

    def __call__(self, *args: Any) -> Any:
        """Call the function from Python."""
        return self.function(*args)


def _address(function: Any, arguments: tuple[types.Type, ...]) -> tuple[Any, types.Type | None]:
    """Compile for some types of arguments; return the C function's address and its return type."""
    if DISABLE_JIT:  # tests that enumerate a kernel's random choices run it as Python
        return function, None
    _, _, folded, _ = function.get_call_template(arguments, {})  # compiles, or loads
    result = function.overloads[tuple(folded)]
    wrapper = result.fndesc.llvm_cfunc_wrapper_name
    return result.library.get_pointer_to_function(wrapper), result.signature.return_type


def _caller(
    arguments: tuple[types.Type, ...], returned: types.Type | None, as_tuple: bool = False
) -> Callable[..., Any]:
    """Make ``call(address, *args)``, usable in native code, for functions of given types.

    The functions of PyTensor's numba linker are of the form ``f(*args)``: in machine code, they
    take one tuple.
    """
    if DISABLE_JIT:
        return lambda function, *args: function(*args)

    def codegen(context, builder, sig, args):
        address, packed = args
        values = [packed] if as_tuple else cgutils.unpack_tuple(builder, packed)
        function = ir.FunctionType(context.get_value_type(returned), [v.type for v in values])
        return builder.call(builder.inttoptr(address, function.as_pointer()), values)

    @intrinsic
    def call(typingctx, address, *arguments_):
        return returned(types.int64, types.StarArgTuple(arguments)), codegen

    return call  # type: ignore[no-any-return]


call_density = _caller(DENSITY.args, DENSITY.return_type)
call_log_factor = _caller(LOG_FACTOR.args, LOG_FACTOR.return_type)


def _borrower() -> Callable[..., Any]:
    """Make ``borrow(named_tuple)``, usable in native code."""
    if DISABLE_JIT:
        return lambda record: record

    def codegen(context, builder, sig, args):
        (kind,), (record,) = sig.args, args
        for i, member in enumerate(kind):
            if isinstance(member, types.Array):
                make = context.make_array(member)
                array = make(context, builder, value=builder.extract_value(record, i))
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                record = builder.insert_value(record, array._getvalue(), i)
        return record

    @intrinsic
    def borrow(typingctx, record):
        """Return the record, its arrays without their reference counts.

        Numba counts references, atomically, to each array of each record whenever a record is
        handed to a function: as long as all else in a transition together. The caller of a kernel
        holds the arrays while it runs, so that nothing needs to be counted.
        """
        return record(record), codegen

    return borrow  # type: ignore[no-any-return]


borrow = _borrower()


def _fingerprint() -> str:
    """Hash of the sources of all native code.

    Numba notices a change in the file of a cached function, not in the files of the functions that
    it inlined. Kernels therefore close over this fingerprint, which makes it part of their cache
    key: no kernel is loaded with another version of, say, the brightness moves compiled in.
    """
    sources = [path.read_bytes() for path in sorted(Path(__file__).parent.rglob("*.py"))]
    return hashlib.sha256(b"".join(s for s in sources if b"@njit" in s)).hexdigest()


SOURCE_FINGERPRINT = _fingerprint()


def read_only(array: np.ndarray) -> np.ndarray:
    """View of a C-contiguous array that kernels cannot write to; its numba type says so."""
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


def named_tuple_type(cls: type, fields: dict[str, types.Type]) -> types.Type:
    """Numba type of the named tuple `cls`, its fields given in order."""
    assert tuple(fields) == cls._fields  # type: ignore[attr-defined]
    members = list(fields.values())
    if len(set(members)) == 1:  # numba has a type of its own for these
        return types.NamedUniTuple(members[0], len(members), cls)
    return types.NamedTuple(members, cls)


def _compile(inputs: list[Any], outputs: list[Any]) -> Any:
    # PyTensor's numba mode reassociates floating-point sums by default. A gap is a difference of
    # nearly equal numbers: no reassociation here.
    with pytensor.config.change_flags(numba__fastmath=False, floatX="float64"):
        function = pytensor.function(
            inputs, outputs, mode="NUMBA", trust_input=True, on_unused_input="ignore"
        )
        # A first call compiles; only then are all fields of the linker's thunk in place.
        return function.vm.jit_fn


def compile_density(
    theta: TensorVariable,
    statistics: TensorVariable,
    logp: TensorVariable,
    w: TensorVariable,
    shared: TensorVariable,
) -> NativeFunction:
    """Compile a log density and its coefficients into a native function of signature `DENSITY`.

    Parameters
    ----------
    theta, statistics : TensorVariable
        Inputs: float64 vectors.
    logp : TensorVariable
        Scalar.
    w : TensorVariable
        Vector of coefficients w(theta), shape (P,).
    shared : TensorVariable
        Vector of what the rows' bounds have in common, of a known shape (S,).
    """
    (n_shared,) = shared.type.shape
    # Scalars come back in registers: each array would be an allocation.
    numbers = [logp.astype("float64"), *(shared[i] for i in range(n_shared))]
    graph = _compile([theta, statistics], [w, *(pt.scalar_from_tensor(x) for x in numbers)])
    # By its address, or else LLVM would optimise the whole graph again for each model.
    address, returned = _address(graph, DENSITY.args[:2])
    call = _caller(DENSITY.args[:2], returned, as_tuple=True)

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


def compile_log_factor(
    log_factor: Callable[[list[Any], Any, Any], TensorVariable],
    n_predictors: int,
    n_nuisances: int,
    n_constants: int,
    n_shared: int,
) -> NativeFunction:
    """Compile a row-wise log factor into a native function of signature `LOG_FACTOR`.

    Parameters
    ----------
    log_factor : callable
        From the graphs of the arguments of some rows, each of shape (n,), of the rows' constants
        (n, R) and of what their bounds have in common (S,), to the graph of the log factors (n,).
    n_predictors, n_nuisances, n_constants, n_shared : int
    """
    # A graph of one row's scalars: without arrays inside the loop a row costs what its
    # transcendental functions cost.
    arguments = [ps.float64(f"argument_{i}") for i in range(n_predictors + n_nuisances)]
    constants = [ps.float64(f"constant_{i}") for i in range(n_constants)]
    shared = [ps.float64(f"shared_{i}") for i in range(n_shared)]
    each = [_vector([argument]) for argument in arguments]
    row = log_factor(each, _vector(constants)[None, :], _vector(shared))
    # In the order of the native function: the nuisance parameters come with what is shared.
    inputs = [*arguments[:n_predictors], *constants, *arguments[n_predictors:], *shared]
    graph = _compile(inputs, [pt.scalar_from_tensor(row[0])])
    n_common = n_nuisances + n_shared

    def log_factors(eta, constants, shared, out):
        common = to_fixed_tuple(shared, n_common)
        for i in range(out.shape[0]):
            row = to_fixed_tuple(eta[i], n_predictors)
            out[i] = graph(*row, *to_fixed_tuple(constants[i], n_constants), *common)[0]

    return NativeFunction(log_factors, LOG_FACTOR)


def _vector(scalars: list[Any]) -> TensorVariable:
    if not scalars:
        return pt.zeros((0,))
    return pt.stack([pt.tensor_from_scalar(scalar) for scalar in scalars])
