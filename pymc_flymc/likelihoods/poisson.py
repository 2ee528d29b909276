"""Counts: Poisson variables with a log link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import PoissonRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.base import RowParameters, check_counts
from pymc_flymc.likelihoods.links import find_log_mean

__all__ = ["PoissonLog"]


class PoissonLog:
    """Observed counts with ``mean = exp(eta_n)``."""

    name = "poisson-log"
    usage = "pm.Poisson(mu=exposure * pm.math.exp(eta))"
    n_predictors = 1
    nuisances: tuple[str, ...] = ()
    row_data: tuple[str, ...] = ()
    growth = 1.0

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is ``pm.Poisson``."""
        return rv.owner is not None and isinstance(rv.owner.op, PoissonRV)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log mean, found inside the graph of mu.

        Constant factors of mu, such as an exposure, are offsets of the predictor.

        Raises
        ------
        UnsupportedModelError
            If mu is not the exponential function of a part of its graph, times constants.
        ValueError
            If one of these is not positive and finite.
        """
        (mu,) = rv.owner.op.dist_params(rv.owner)
        eta = find_log_mean(mu, rv)
        if eta is None:
            raise UnsupportedModelError(
                f"cannot read the observed variable {rv.name!r}: its mu is not the exponential "
                "function of a linear predictor. Use pm.Poisson(mu=pm.math.exp(eta)), or "
                "mu=exposure * pm.math.exp(eta)"
            )
        return RowParameters(self, eta)

    read_observed = staticmethod(check_counts)

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return exp(high): all derivatives from the second on are -exp(eta)."""
        return np.exp(np.asarray(high, dtype=np.float64))

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return ``y eta - exp(eta)``: all of it but a term that depends on y alone."""
        (eta,) = arguments
        return y * eta - pt.exp(eta)
