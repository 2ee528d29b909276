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
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.config import DISABLE_JIT  # type: ignore[attr-defined]
from numba.extending import intrinsic
from pytensor.graph.basic import Variable

__all__ = [
    "DENSITY",
    "LOG_FACTOR",
    "SOURCE_FINGERPRINT",
    "NativeFunction",
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
#: ``log_factor(eta, constants, shared, out)``; one value for each of the rows handed in.
LOG_FACTOR = types.void(vector(), matrix, vector(), vector())


class NativeFunction:
    """A compiled function that a kernel calls by its address.

    Numba's own first-class functions cost 30 microseconds a kernel call to hand over; an address is
    an integer. The object must outlive every use of its address.

    Attributes
    ----------
    address : int
        Of a function in the C calling convention.
    """

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        self.function = function
        if DISABLE_JIT:
            self.address: Any = function
        else:
            compiled = numba.njit(signature)(function)
            result = compiled.get_compile_result(signature)
            wrapper = result.fndesc.llvm_cfunc_wrapper_name
            self.address = result.library.get_pointer_to_function(wrapper)
            self.function = compiled

    def __call__(self, *args: Any) -> Any:
        """Call the function from Python."""
        return self.function(*args)


def _caller(signature: Any) -> Callable[..., Any]:
    """Make ``call(address, *args)``, usable in native code, for functions of a signature."""
    if DISABLE_JIT:  # tests that enumerate a kernel's random choices run it as Python
        return lambda function, *args: function(*args)

    def codegen(context, builder, sig, args):
        values = [context.get_value_type(t) for t in signature.args]
        function = ir.FunctionType(context.get_value_type(signature.return_type), values)
        address, arguments = args[0], cgutils.unpack_tuple(builder, args[1])
        return builder.call(builder.inttoptr(address, function.as_pointer()), arguments)

    @intrinsic
    def call(typingctx, address, *arguments):
        return signature.return_type(types.int64, types.StarArgTuple(signature.args)), codegen

    return call  # type: ignore[no-any-return]


call_density = _caller(DENSITY)
call_log_factor = _caller(LOG_FACTOR)


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


def _compile(inputs: list[Variable], outputs: list[Variable]) -> Callable[..., Any]:
    # PyTensor's numba mode reassociates floating-point sums by default. A gap is a difference of
    # nearly equal numbers: no reassociation here.
    with pytensor.config.change_flags(numba__fastmath=False, floatX="float64"):
        function = pytensor.function(
            inputs, outputs, mode="NUMBA", trust_input=True, on_unused_input="ignore"
        )
        # A first call compiles; only then are all fields of the linker's thunk in place.
        return function.vm.jit_fn


def compile_density(
    theta: Variable, statistics: Variable, logp: Variable, w: Variable, shared: Variable
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
        Vector of what the rows' bounds have in common, shape (S,).
    """
    graph = _compile([theta, statistics], [logp, w, shared])

    def density(theta, statistics, w_out):
        logp, w, shared = graph(theta, statistics)
        # An array assignment would compile numba's whole shape-mismatch report: three seconds.
        n = w.shape[0]
        for j in range(n):
            w_out[j] = w[j]
        for j in range(shared.shape[0]):
            w_out[n + j] = shared[j]
        return np.float64(logp.item())

    return NativeFunction(density, DENSITY)


def compile_log_factor(
    eta: Variable, constants: Variable, shared: Variable, log_factor: Variable
) -> NativeFunction:
    """Compile a row-wise log factor into a native function of signature `LOG_FACTOR`.

    Parameters
    ----------
    eta : TensorVariable
        Input: linear predictor of some rows, shape (n,).
    constants : TensorVariable
        Input: constants of the same rows, shape (n, R).
    shared : TensorVariable
        Input: what the bounds of all rows have in common, shape (S,).
    log_factor : TensorVariable
        Shape (n,).
    """
    graph = _compile([eta, constants, shared], [log_factor])

    def log_factors(eta, constants, shared, out):
        values = graph(eta, constants, shared)[0]
        for i in range(out.shape[0]):
            out[i] = values[i]

    return NativeFunction(log_factors, LOG_FACTOR)
