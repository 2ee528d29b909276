"""Private parts of ArviZ."""

import functools
from contextlib import suppress
from typing import Any

import numpy as np

from pymc_flymc.compat import private


@functools.cache
def _psislw() -> Any:
    """Return the fit of ArviZ, whose import takes as long as that of PyMC."""
    lost = "proposals with heavy tails go without a warning"
    return private("arviz_stats.base:array_stats.psislw", lost)


def pareto_index(log_weights: np.ndarray) -> float:
    r"""Return the index k of weights whose tail is about :math:`P(W > w) \propto w^{-1/k}`.

    Parameters
    ----------
    log_weights : ndarray, shape (n,)
        Finite.

    Returns
    -------
    float
        Of a Pareto distribution fitted to the largest weights. Negative where they are bounded; it
        may be NaN where their distribution is far from Pareto's.

    References
    ----------
    Vehtari, A., Simpson, D., Gelman, A., Yao, Y. and Gabry, J. (2024). Pareto smoothed importance
    sampling. Journal of Machine Learning Research 25.
    """
    with np.errstate(all="ignore"), suppress(ValueError):  # of a tail of equal weights
        # ArviZ is for weights of leave-one-out validation, reciprocals of the likelihoods it takes.
        return float(_psislw()(-log_weights)[1])
    return np.nan
