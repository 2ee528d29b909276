"""Log factors and rates of rows, whatever their brightness, for checks that sum them."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from pymc_flymc.compat.numba import view
from pymc_flymc.kernels.dark_rates import rate_of
from pymc_flymc.kernels.factors import Scratch, add_gradients, log_factors
from pymc_flymc.kernels.native import kernel, kernel_part
from pymc_flymc.kernels.posterior import Posterior
from pymc_flymc.kernels.records import record_type, vector
from pymc_flymc.kernels.rows import parts_of


def row_terms(
    posterior: Posterior, w: np.ndarray, index: np.ndarray, gradient: np.ndarray, scratch: Scratch
) -> tuple[np.ndarray, np.ndarray]:
    """Return log factors and rates of rows at w, as kernels without or with a `gradient` do."""
    first, *others = parts_of(posterior.rows)
    factors, rates = np.empty((2, len(index)))
    evaluate = _row_terms(first.X.dtype, 1 + len(others))
    evaluate(posterior, w, index.astype(np.int32), factors, rates, gradient, scratch)
    return factors, rates


@kernel_part
def _terms(posterior, w, index, factors, rates, gradient, scratch):
    rows, n = posterior.rows, index.shape[0]
    if gradient.shape[0] > 0:
        factor = posterior.log_factor_gradient
        add_gradients(rows, factor, w, index, 0, n, factors, gradient, scratch)
    else:
        log_factors(rows, posterior.log_factor, w, index, 0, n, factors, scratch)
    for i in range(n):
        rates[i] = rate_of(rows, w, index[i])


@functools.cache
def _row_terms(dtype: np.dtype, n_likelihoods: int) -> Callable[..., Any]:
    """Return the compiled ``row_terms(posterior, w, index, factors, rates, gradient, scratch)``."""
    posterior, v = record_type(Posterior, dtype, n_likelihoods), vector()

    @kernel(types.void(posterior, v, vector(types.int32), v, v, v, record_type(Scratch)))
    def row_terms(posterior, w, index, factors, rates, gradient, scratch):
        posterior, scratch = view(posterior), view(scratch)
        # Calls a part: numba compiles a choice by types again for callers with other options.
        _terms(posterior, w, index, factors, rates, gradient, scratch)

    return row_terms  # type: ignore[no-any-return]
