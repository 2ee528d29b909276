"""Counts: Poisson variables with a log link."""

from collections.abc import Sequence
from typing import Any

import pytensor.tensor as pt
from pytensor.tensor.random.basic import PoissonRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.checks import check_counts
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import find_log_mean, unreadable


class PoissonLog(SmoothFamily):
    """Observed counts with ``mean = exp(eta_n)``."""

    name = "poisson-log"
    usage = "pm.Poisson(mu=exposure * pm.math.exp(eta))"
    distributions = PoissonRV
    zero_at_no_mean = True

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log mean from the graph of mu; constant factors are offsets."""
        (mu,) = rv.owner.op.dist_params(rv.owner)
        eta = find_log_mean(mu, rv, of_counts=True)
        if eta is None:
            usage = "pm.Poisson(mu=pm.math.exp(eta)), or mu=exposure * pm.math.exp(eta)"
            raise unreadable(rv, "mu", "exponential", usage)
        return RowParameters(self, eta)

    read_observed = staticmethod(check_counts)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y eta - exp(eta)``, without terms in y alone."""
        (eta,) = arguments
        return y * eta - pt.exp(eta)
