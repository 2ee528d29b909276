"""Compile once, load from disk ever after: the rules of the native code.

Kernels are compiled for *signatures*, not for models. What a model brings (its density, its
bound) is compiled by PyTensor and handed over by address, so that a kernel is
loaded from numba's disk cache whatever the model is.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.config import DISABLE_JIT  # type: ignore[attr-defined]
from numba.extending import intrinsic

from pymc_flymc.kernels.caching import version_of

__all__ = [
    "LOG_FACTOR",
    "LOG_FACTOR_GRADIENT",
    "NativeFunction",
    "address_of",
    "borrow",
    "call_log_factor",
    "call_log_factor_gradient",
    "entry_point",
    "kernel",
    "kernel_part",
    "matrix",
    "named_tuple_type",
    "native_caller",
    "read_only",
    "vector",
]


def vector(dtype: types.Type = types.float64) -> types.Array:
    """Numba type of a C-contiguous vector."""
    return types.Array(dtype, 1, "C")


matrix = types.Array(types.float64, 2, "C")

#: ``log_factor(eta, constants, shared, out)``; one value for each of the rows handed in, from their
#: predictors and constants, a row each, and what all rows share.
LOG_FACTOR = types.void(matrix, matrix, vector(), vector())
#: ``log_factor_gradient(eta, constants, shared, out, slopes, slope)``: log factors of the rows, and
#: their derivatives in the rows' predictors; adds up those in what all rows share.
LOG_FACTOR_GRADIENT = types.void(matrix, matrix, vector(), vector(), matrix, vector())


class NativeFunction:
    """A compiled function that a kernel calls by its address.

    Numba's own first-class functions cost 30 microseconds a kernel call to hand over; an address is
    an integer. The object must outlive every use of its address.

    Parameters
    ----------
    function : callable
        To be compiled.
    signature
        One of those above.
    widths : tuple of int, optional
        Lengths of rows of the first two arguments, and of the third, if it reads that many.
    cached : bool
        Whether numba may keep it on disk.

    Attributes
    ----------
    address : int
        See `address_of`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signature: Any,
        widths: tuple[int, ...] = (),
        cached: bool = False,
    ) -> None:
        self.function = numba.njit(function, cache=cached)
        self.address, _ = address_of(self.function, signature.args)
        self._widths = widths

    def __call__(self, *args: Any) -> Any:
        """Call the function from Python.

        Raises
        ------
        ValueError
            If arguments do not have the widths that it reads.
        """
        found = tuple(arg.shape[-1] for arg, _ in zip(args, self._widths, strict=False))
        if found != self._widths:
            raise ValueError(
                f"a row's log factor reads {self._widths} predictors, constants and shared "
                f"numbers, and is given {found}"
            )
        return self.function(*args)


def address_of(function: Any, arguments: tuple[types.Type, ...]) -> tuple[Any, types.Type | None]:
    """Compile for some types of arguments; return the function's address and its return type.

    The function is the one in numba's own calling convention, which returns a status. The C wrapper
    around it prints an exception, forgets it, and returns zeros: a log density of zero, or arrays
    at null pointers.
    """
    if DISABLE_JIT:  # tests that enumerate a kernel's random choices run it as Python
        return function, None
    _, _, folded, _ = function.get_call_template(arguments, {})  # compiles, or loads
    result = function.overloads[tuple(folded)]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return address, result.signature.return_type


def entry_point(kernel: Any) -> Callable[..., Any]:
    """Return what numba calls once it has found a compiled kernel for the types of its arguments.

    Finding it takes microseconds per call, and each kernel has a single signature. Arguments of
    other types would be misread: for those who build them.
    """
    if DISABLE_JIT:
        return kernel  # type: ignore[no-any-return]
    (signature,) = kernel.signatures
    return kernel.overloads[signature].entry_point  # type: ignore[no-any-return]


def native_caller(
    arguments: tuple[types.Type, ...], returned: types.Type | None, as_tuple: bool = False
) -> Callable[..., Any]:
    """Make ``call(address, *args)``, usable in native code, for functions of given types.

    The functions of PyTensor's numba linker are of the form ``f(*args)``: in machine code, they
    take one tuple. An exception that the function raises goes on to whoever calls the kernel, as
    that of any function of numba's.
    """
    if DISABLE_JIT:
        return lambda function, *args: function(*args)

    def codegen(context, builder, sig, args):
        address, packed = args
        values = [packed] if as_tuple else cgutils.unpack_tuple(builder, packed)
        kinds = (sig.args[1],) if as_tuple else arguments
        convention = context.call_conv
        pointer = convention.get_function_type(returned, kinds).as_pointer()
        function = builder.inttoptr(address, pointer)
        status, value = convention.call_function(builder, function, returned, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return value

    @intrinsic
    def call(typingctx, address, *arguments_):
        return returned(types.int64, types.StarArgTuple(arguments)), codegen

    return call  # type: ignore[no-any-return]


call_log_factor = native_caller(LOG_FACTOR.args, LOG_FACTOR.return_type)
call_log_factor_gradient = native_caller(LOG_FACTOR_GRADIENT.args, LOG_FACTOR_GRADIENT.return_type)


def _borrower() -> Callable[..., Any]:
    """Make ``borrow(named_tuple)``, usable in native code."""
    if DISABLE_JIT:
        return lambda record: record

    def strip(context, builder, kind, record):
        for i, member in enumerate(kind):
            value = builder.extract_value(record, i)
            if isinstance(member, types.Array):
                array = context.make_array(member)(context, builder, value=value)
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                record = builder.insert_value(record, array._getvalue(), i)
            elif isinstance(member, types.BaseTuple):
                record = builder.insert_value(record, strip(context, builder, member, value), i)
        return record

    def codegen(context, builder, sig, args):
        return strip(context, builder, sig.args[0], args[0])

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


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for a signature, once for each version of its sources; kept on disk.

    The version is part of the name under which a kernel is kept, see `version_of`: of another
    version's cache numba would read the types first, which may be gone. So is the signature: two
    processes that write kernels of one name at a time may mix them up.
    """
    arguments = hashlib.sha256(str(signature).encode()).hexdigest()

    def compile_for(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{version_of(function.__code__.co_filename):x}_{arguments[:16]}"
        return numba.njit(signature, cache=True)(function)

    return compile_for


#: Decorator of functions that only kernels call, without the wrappers by which Python and C would:
#: for records of many arrays these take a quarter of the time to compile. With ``inline="always"``,
#: for long functions with a single caller: else they are compiled alone, and again in the caller.
kernel_part = functools.partial(numba.njit, no_cpython_wrapper=True, no_cfunc_wrapper=True)


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
