"""Log factors and rates of rows, whatever their brightness, for checks that sum them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from pymc_flymc.compat.numba import borrow
from pymc_flymc.kernels.dark_rates import rate_of
from pymc_flymc.kernels.factors import Scratch, add_gradients, log_factors
from pymc_flymc.kernels.native import kernel
from pymc_flymc.kernels.posterior import Posterior
from pymc_flymc.kernels.records import record_type, vector


@functools.cache
def row_terms_kernel(dtype: np.dtype, *several: int) -> Callable[..., Any]:
    """Return the compiled ``row_terms(posterior, w, index, factors, rates, gradient, scratch)``.

    It writes the log factors and the rates of the rows in `index` at coefficients w. If `gradient`
    is empty, factors are computed as in kernels without gradients, else as in those with gradients.
    """
    posterior, v = record_type(Posterior, dtype, *several), vector()

    @kernel(types.void(posterior, v, vector(types.int32), v, v, v, record_type(Scratch)))
    def row_terms(posterior, w, index, factors, rates, gradient, scratch):
        posterior, scratch = borrow(posterior), borrow(scratch)
        rows, n = posterior.rows, index.shape[0]
        if gradient.shape[0] > 0:
            factor = posterior.log_factor_gradient
            add_gradients(rows, factor, w, index, 0, n, factors, gradient, scratch)
        else:
            log_factors(rows, posterior.log_factor, w, index, 0, n, factors, scratch)
        for i in range(n):
            rates[i] = rate_of(rows, w, index[i])

    return row_terms  # type: ignore[no-any-return]
