"""Bernoulli variables with a probit or a complementary log-log link."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable
from scipy.special import ndtr

from pymc_flymc.likelihoods.bernoulli import Bernoulli
from pymc_flymc.likelihoods.functions import log_normal_cdf, log_positive

__all__ = ["BernoulliCloglog", "BernoulliProbit"]


class BernoulliProbit(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = Phi(eta_n)``, Phi the normal distribution function."""

    name = "bernoulli-probit"
    usage = "pm.Bernoulli(p=pm.math.invprobit(eta))"
    #: pm.math.invprobit has the square root of two in single precision only.
    rtol = 1e-8

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the normal distribution function."""
        return ndtr(eta)

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return ``log Phi(s)``, s = (2y - 1) eta."""
        (eta,) = arguments
        value: TensorVariable = log_normal_cdf((2.0 * y - 1.0) * eta)
        return value


class BernoulliCloglog(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = 1 - exp(-exp(eta_n))``."""

    name = "bernoulli-cloglog"
    usage = "pm.Bernoulli(p=1 - pm.math.exp(-pm.math.exp(eta)))"

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the distribution function of the logarithm of a standard exponential variable."""
        return -np.expm1(-np.exp(eta))

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return ``log(1 - exp(-t))`` or ``-t``, t = exp(eta).

        Branches that are not taken get an argument at which they and their derivatives are finite.
        """
        (eta,) = arguments
        return pt.switch(y > 0.5, log_positive(eta), -pt.exp(pt.switch(y > 0.5, 0.0, eta)))
