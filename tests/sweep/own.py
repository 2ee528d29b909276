"""A family from outside the package, as users register them."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import VonMisesRV

from pymc_flymc.graphs.tools import evaluate
from pymc_flymc.likelihoods import RowParameters

__all__ = ["VonMises"]


class VonMises:
    """Observed angles around a predictor, of the concentration `KAPPA`: not log-concave."""

    KAPPA = 0.8
    name = "von-mises"
    n_predictors = 1
    nuisances: tuple[str, ...] = ()
    row_data: tuple[str, ...] = ()
    growth = 0.0
    log_concave = False

    def matches(self, rv: Any) -> bool:
        return rv.owner is not None and isinstance(rv.owner.op, VonMisesRV)

    def read(self, rv: Any) -> RowParameters:
        eta, kappa = rv.owner.op.dist_params(rv.owner)
        assert evaluate(kappa) == self.KAPPA
        return RowParameters(self, eta)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        return np.asarray(values, dtype=np.float64)

    def log_likelihood(self, arguments: Any, y: Any) -> Any:
        (eta,) = arguments
        return self.KAPPA * pt.cos(y - eta)

    def derivative_bound(self, order: int, low: Any, high: Any, y: np.ndarray) -> np.ndarray:
        return np.full(np.broadcast(low, high, y if y.ndim == 1 else y[:, 0]).shape, self.KAPPA)
