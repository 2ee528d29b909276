"""NumPy's random generators in native code, handed over by address.

Numba's own way to hand over a generator runs some lines of Python and does not ask whether they
failed. An interrupt (Ctrl-C) that has come in is raised in these lines, and the kernel would go on
with a null pointer. An address is an integer: no Python runs between a kernel's call and its end,
and an interrupt is raised once the kernel has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.config import DISABLE_JIT  # type: ignore[attr-defined]
from numba.extending import intrinsic

__all__ = ["GENERATOR", "address_of_generator", "generator_at"]

#: Numba type of a generator as a kernel is given it.
GENERATOR = types.int64
_BITS = types.NumPyRandomBitGeneratorType("bits")
#: Fields of ``bitgen_t``, the C structure that NumPy publishes in ``numpy/random/bitgen.h``, in
#: order: all are pointers. By these names numba has them.
_BITGEN = ("state", "fnptr_next_uint64", "fnptr_next_uint32", "fnptr_next_double")


def address_of_generator(rng: np.random.Generator) -> Any:
    """Return the address of a generator's ``bitgen_t``, which lives as long as the generator."""
    if DISABLE_JIT:  # tests that enumerate a kernel's random choices run it as Python
        return rng
    return rng.bit_generator.ctypes.bit_generator.value


def _reader() -> Callable[..., Any]:
    """Make ``generator_at(address)``, usable in native code."""
    if DISABLE_JIT:
        return lambda rng: rng

    def codegen(context, builder, sig, args):
        pointers = builder.inttoptr(args[0], cgutils.intp_t.as_pointer())
        # What is not set is null: nobody counts references to a generator in native code.
        bits = cgutils.create_struct_proxy(_BITS)(context, builder)
        for i, field in enumerate(_BITGEN):
            setattr(bits, field, builder.load(cgutils.gep_inbounds(builder, pointers, i)))
        generator = cgutils.create_struct_proxy(types.npy_rng)(context, builder)
        generator.bit_generator = bits._getvalue()
        return generator._getvalue()

    @intrinsic
    def generator_at(typingctx, address):
        """Return the generator whose ``bitgen_t`` is at an address; its caller keeps it alive."""
        return types.npy_rng(types.int64), codegen

    return generator_at  # type: ignore[no-any-return]


generator_at = _reader()
