"""Compile once, load from disk ever after: the rules of the native code.

Kernels are compiled for *signatures*, not for models. PyTensor compiles what a model contributes
(its density, its bound), which is handed over by address. So a kernel is loaded from numba's disk
cache whatever the model is.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from pymc_flymc.compat.numba import (
    DISABLE_JIT,
    PartCompiler,
    address_of,
    keep_on_disk,
    native_caller,
)
from pymc_flymc.kernels.caching import version_of
from pymc_flymc.kernels.records import matrix, vector

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
        self.function = numba.njit(function)
        if cached:
            keep_on_disk(self.function)
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


call_log_factor = native_caller(LOG_FACTOR.args, LOG_FACTOR.return_type)
call_log_factor_gradient = native_caller(LOG_FACTOR_GRADIENT.args, LOG_FACTOR_GRADIENT.return_type)


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for a signature, once for each version of its sources; kept on disk.

    The version is part of the name under which a kernel is kept, see `version_of`: of another
    version's cache numba would read the types first, which may be gone. So is the signature: two
    processes that write kernels of one name at a time may mix them up.
    """
    arguments = hashlib.sha256(str(signature).encode()).hexdigest()

    def compile_for(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{version_of(function.__code__.co_filename):x}_{arguments[:16]}"
        dispatcher = numba.njit(function)
        if not DISABLE_JIT:
            keep_on_disk(dispatcher)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return compile_for


#: Decorator of functions that only kernels call, without the wrappers by which Python and C would:
#: for records of many arrays these take a quarter of the time to compile. They are optimised where
#: they are called, which saves another. With ``inline="always"``, for long functions with a single
#: caller: else they are compiled alone, and again in the caller.
kernel_part = functools.partial(
    numba.njit, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler
)
