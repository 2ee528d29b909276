"""Compilation of native code: once, after which it is loaded from disk.

Kernels are compiled for *signatures*, not for models. PyTensor compiles what a model contributes
(its density, its bound), which is passed by address. So a kernel is loaded from numba's disk
cache whatever the model is.
"""

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import numba
from numba import types

from pymc_flymc.compat.numba import DISABLE_JIT, address_of, keep_on_disk, native_caller
from pymc_flymc.compat.numba_compilers import KernelCompiler, PartCompiler
from pymc_flymc.kernels.caching import version_of
from pymc_flymc.kernels.records import matrix, vector

#: ``log_factor(eta, constants, shared, out)`` writes the log factor of each row, from the rows'
#: predictors and constants, and from the numbers that all rows share.
LOG_FACTOR = types.void(matrix, matrix, vector(), vector())
#: ``log_factor_gradient(eta, constants, shared, out, slopes, slope)`` writes log factors of the
#: rows, and their derivatives in the predictors; and sums derivatives in the shared numbers.
LOG_FACTOR_GRADIENT = types.void(matrix, matrix, vector(), vector(), matrix, vector())


class NativeFunction:
    """A compiled function that a kernel calls by its `address`, see `address_of`.

    Numba's own first-class functions take 30 microseconds per kernel call to pass; an address is an
    integer. The object must outlive every use of its address. The signature is one of those above;
    `widths` are lengths of rows of the first two arguments, and of the third, if the function reads
    that many; `cached` functions are kept on disk by numba.
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
        """Call the function from Python; refuse arguments without the widths that it reads."""
        found = tuple(arg.shape[-1] for arg, _ in zip(args, self._widths, strict=False))
        if found != self._widths:
            raise ValueError(
                f"a row's log factor reads {self._widths} predictors, constants and shared "
                f"numbers, and is given {found}"
            )
        return self.function(*args)


call_log_factor = native_caller(LOG_FACTOR.args, LOG_FACTOR.return_type)
call_log_factor_gradient = native_caller(LOG_FACTOR_GRADIENT.args, LOG_FACTOR_GRADIENT.return_type)


#: Nobody calls kernels from C.
_compiled = functools.partial(numba.njit, no_cfunc_wrapper=True, pipeline_class=KernelCompiler)


def kernel(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for a signature, once for each version of its sources; kept on disk.

    The version is part of the name under which a kernel is kept, see `version_of`. Otherwise numba
    would read the types in another version's cache first, and these may no longer exist. The
    signature is part of it, too: two processes that write kernels of the same name may mix them up.
    """
    arguments = hashlib.sha256(str(signature).encode()).hexdigest()

    def compile_for(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{version_of(function.__code__.co_filename):x}_{arguments[:16]}"
        dispatcher: Any = _compiled(function)
        if not DISABLE_JIT:
            keep_on_disk(dispatcher)
            dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return compile_for


def lazy_kernel(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return `kernel` for a function that is compiled when it is first called."""

    def compile_later(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = functools.cache(lambda: kernel(signature)(function))

        @functools.wraps(function)
        def call(*arguments: Any) -> Any:
            return compiled()(*arguments)

        return call

    return compile_later


#: Decorator of functions that only kernels call. It leaves out wrappers for calls from Python and
#: C: for records of many arrays these take a quarter of the compile time. Functions are optimised
#: where they are called, which saves another quarter. Long functions with a single caller have
#: ``inline="always"``: else they are compiled alone, and again in the caller.
kernel_part = functools.partial(
    numba.njit, no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler
)
#: A function that is called for each row is always inlined: a call would pass each field of the
#: rows' record, about sixty numbers, which takes a hundred times as long as a row's rate.
row_part = functools.partial(kernel_part, forceinline=True)
