"""NumPy's random generators in native code, passed by address.

Numba's own way to pass a generator runs some lines of Python without checking whether they failed.
A pending interrupt (Ctrl-C) is raised in these lines, and the kernel would go on with a null
pointer. An address is an integer: no Python runs between a kernel's call and its end, and an
interrupt is raised once the kernel has returned.
"""

from typing import Any

import numpy as np
from numba import types

from pymc_flymc.compat.numba import DISABLE_JIT

#: Numba type of a generator as an argument of a kernel.
GENERATOR = types.int64


def address_of_generator(rng: np.random.Generator) -> Any:
    """Return the address of a generator's ``bitgen_t``, which lives as long as the generator."""
    if DISABLE_JIT:
        return rng
    return rng.bit_generator.ctypes.bit_generator.value
