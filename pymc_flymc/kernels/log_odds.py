"""Log odds of rows whatever their brightness, for those who add them up over all rows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from pymc_flymc.kernels.dark_rates import rate_of
from pymc_flymc.kernels.factors import Scratch, add_gradients, log_factors
from pymc_flymc.kernels.native import borrow, kernel
from pymc_flymc.kernels.posterior import posterior_type
from pymc_flymc.kernels.records import record_type, vector

__all__ = ["log_odds_kernel"]


@functools.cache
def log_odds_kernel(dtype: np.dtype, *several: int) -> Callable[..., Any]:
    """Return the compiled ``log_odds(posterior, w, index, out, gradient, scratch)``.

    It writes the log odds of the rows in `index` at coefficients w, or log L where there is no
    bound. They are computed as by kernels that need no gradient if `gradient` is empty, or else as
    by the others.
    """
    posterior, v = posterior_type(dtype, *several), vector()

    @kernel(types.void(posterior, v, vector(types.int32), v, v, record_type(Scratch)))
    def log_odds(posterior, w, index, out, gradient, scratch):
        posterior, scratch = borrow(posterior), borrow(scratch)
        rows, n = posterior.rows, index.shape[0]
        if gradient.shape[0] > 0:
            factor = posterior.log_factor_gradient
            add_gradients(rows, factor, w, index, 0, n, out, gradient, scratch)
        else:
            log_factors(rows, posterior.log_factor, w, index, 0, n, out, scratch)
        for i in range(n):
            out[i] += rate_of(rows, w, index[i])

    return log_odds  # type: ignore[no-any-return]
