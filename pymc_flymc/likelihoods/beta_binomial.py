r"""Successes in trials whose chance varies from row to row: beta-binomial variables.

The chance is a beta variable with a logistic mean. With its shapes :math:`A = \mu \phi` and
:math:`B = (1 - \mu) \phi`, as in `Beta`, the log-likelihood of y successes in n trials is
:math:`R(A, y) + R(B, n - y) - R(\phi, n)` with :math:`R(x, k) = \sum_{j < k} \log(x + j)`, but for
what depends on y alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BetaBinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.base import RowParameters
from pymc_flymc.likelihoods.beta import mean_and_size
from pymc_flymc.likelihoods.binomial import BinomialLogit, check_trials
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.functions import log_rising_of_exp
from pymc_flymc.likelihoods.links import unreadable

__all__ = ["BetaBinomial"]

_BINOMIAL = BinomialLogit()


class BetaBinomial(JointlySmoothFamily):
    r"""Observed successes in n trials with the mean chance ``sigmoid(eta_n)``.

    The second predictor is :math:`\tau = \log\phi`. The larger it is, the less the chance varies.
    """

    name = "beta-binomial"
    usage = "pm.BetaBinomial(n=n, alpha=nu * pm.math.sigmoid(eta), beta=nu * pm.math.sigmoid(-eta))"
    distributions: Any = BetaBinomialRV
    n_predictors = 2
    row_data: tuple[str, ...] = ("n",)
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, found inside the graphs of the shapes, and the number of trials."""
        n, a, b = rv.owner.op.dist_params(rv.owner)
        check_trials(n, rv)
        predictors = mean_and_size(a, b, "alpha + beta", rv)
        if predictors is None:
            usage = f"{self.usage}, one nu for all rows"
            raise unreadable(rv, "mean", "logistic", usage)
        return RowParameters(self, predictors, row_data=[n])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check successes and trials, shape (N, 2), as `BinomialLogit.read_observed`."""
        return _BINOMIAL.read_observed(values, name)

    def log_likelihood(self, arguments: Any, y: Any) -> TensorVariable:
        """Return the log-likelihood but for the binomial coefficient."""
        (eta, tau), (successes, trials) = arguments, y
        value: Any = log_rising_of_exp(tau - pt.softplus(-eta), successes)
        value += log_rising_of_exp(tau - pt.softplus(eta), trials - successes)
        return value - log_rising_of_exp(tau, trials)
