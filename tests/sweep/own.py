"""A family from outside the package, as users register them."""

from typing import Any

import pytensor.tensor as pt
from pytensor.tensor.random.basic import VonMisesRV

from pymc_flymc.graphs.tools import evaluate
from pymc_flymc.likelihoods import RowParameters, SmoothFamily

__all__ = ["VonMises"]


class VonMises(SmoothFamily):
    """Observed angles around a predictor, of the concentration `KAPPA`: not log-concave."""

    KAPPA = 0.8
    name = "von-mises"
    distributions = VonMisesRV
    log_concave = False

    def read(self, rv: Any) -> RowParameters:
        eta, kappa = rv.owner.op.dist_params(rv.owner)
        assert evaluate(kappa) == self.KAPPA
        return RowParameters(self, eta)

    def log_likelihood(self, arguments: Any, y: Any) -> Any:
        return self.KAPPA * pt.cos(y - arguments[0])
