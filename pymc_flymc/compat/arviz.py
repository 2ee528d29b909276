"""Private parts of ArviZ."""

import functools
from contextlib import suppress
from typing import Any

import numpy as np

from pymc_flymc.compat import private


@functools.cache
def _psislw() -> Any:
    """Return the fit of ArviZ, whose import takes as long as the import of PyMC."""
    lost = "proposals with heavy tails go without a warning"
    return private("arviz_stats.base:array_stats.psislw", lost)


def pareto_index(log_weights: np.ndarray) -> float:
    r"""Return the index k of finite weights whose tail is about :math:`P(W > w) \propto w^{-1/k}`.

    It is the index of a Pareto distribution fitted to the largest weights: negative if they are
    bounded, and possibly NaN if their distribution is far from Pareto's. Vehtari, A., Simpson, D.,
    Gelman, A., Yao, Y. and Gabry, J. (2024), Pareto smoothed importance sampling, Journal of
    Machine Learning Research 25.
    """
    with np.errstate(all="ignore"), suppress(ValueError):  # a tail of equal weights has no fit
        # ArviZ is for leave-one-out weights, the reciprocals of its argument, the likelihoods.
        return float(_psislw()(-log_weights)[1])
    return np.nan
