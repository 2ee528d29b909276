"""The trigamma function in native code.

Numba does not know it: it would call Python for each element, and what does so is compiled anew in
each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key
from pytensor.scalar.basic import upgrade_to_float_no_complex
from pytensor.scalar.math import TriGamma
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import with_replaced
from pymc_flymc.kernels.caching import version_of

__all__ = ["with_native_trigammas"]

#: The recurrence leads up to here, where the first term that the series leaves out is 1e-17 of it.
FAR = 12.0


class PositiveTriGamma(TriGamma):
    """Second derivative of the log gamma function at positive numbers."""


@register_scalar_funcify(PositiveTriGamma)
def _funcify(op: PositiveTriGamma, node: Apply, **_: Any) -> tuple[Any, str]:
    @numba_njit
    def trigamma(x: Any) -> Any:
        if x <= 0.0:  # a shape that has underflowed
            return np.inf
        # Recurrence (DLMF 5.15.5) and asymptotic series (DLMF 5.15.8).
        total = 0.0
        while x < FAR:
            total += x**-2.0  # a quotient would raise an error where the square is zero
            x += 1.0
        t = 1.0 / x
        u = t * t
        series = 5.0 / 66.0 + u * (-691.0 / 2730.0 + u * 7.0 / 6.0)
        series = 1.0 / 6.0 + u * (-1.0 / 30.0 + u * (1.0 / 42.0 + u * (-1.0 / 30.0 + u * series)))
        return total + t * (1.0 + 0.5 * t + u * series)

    return trigamma, scalar_op_cache_key(op, version=version_of(__file__))


_trigamma = Elemwise(PositiveTriGamma(upgrade_to_float_no_complex, name="positive_tri_gamma"))


def with_native_trigammas(variables: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Copy graphs, with trigamma functions that numba compiles; their arguments are positive."""

    def native(node: Apply, inputs: Sequence[Variable]) -> Any:
        is_trigamma = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, TriGamma)
        return _trigamma(*inputs) if is_trigamma else None

    return with_replaced(variables, native)
