"""Bernoulli variables with a logistic, a probit or a complementary log-log link."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BernoulliRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit, ndtr

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.checks import check_values
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.jets import log_normal_cdf, log_positive
from pymc_flymc.likelihoods.likelihood import LOGISTIC, RowParameters
from pymc_flymc.likelihoods.links import find_log_odds, find_predictor


class Bernoulli(SmoothFamily):
    """Observed 0/1 with ``P(y_n = 1)`` the inverse link of a predictor."""

    name: str
    distributions = BernoulliRV
    #: Rounding error allowed in the link as the model writes it.
    rtol = 64 * float(np.finfo(np.float64).eps)

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the probability of a one, element by element."""
        raise NotImplementedError

    def find(self, p: TensorVariable, rv: TensorVariable) -> TensorVariable | None:
        """Return the predictor of a probability, or None."""
        return find_predictor(p, self.inverse_link, self.rtol)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the predictor, found inside the graph of p: a scalar, or of p's dimensions."""
        (p,) = rv.owner.op.dist_params(rv.owner)
        eta = self.find(p, rv)
        if eta is not None:
            return RowParameters(self, eta)
        raise UnsupportedModelError(
            f"cannot read the observed variable {rv.name!r}: its p is not the logistic function of "
            "a linear predictor, nor the inverse of a probit or complementary log-log link. Use "
            "pm.Bernoulli(logit_p=eta), p=pm.math.sigmoid(eta), p=pm.math.invprobit(eta), "
            "p=1 - pm.math.exp(-pm.math.exp(eta)), or a probability of each group, p=p[group], "
            f"without clipping or mixtures"
        )

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check that observed values are 0 or 1, and return them as int8."""
        check_values((values == 0) | (values == 1), values, name, "0 or 1")
        return values.astype(np.int8)


class BernoulliLogit(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = sigmoid(eta_n)``."""

    name = "bernoulli-logit"
    form = LOGISTIC
    usage = "pm.Bernoulli(logit_p=eta)"

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the logistic function."""
        return expit(eta)

    def find(self, p: TensorVariable, rv: TensorVariable) -> TensorVariable | None:
        """Return the predictor, or the log odds of a probability with none of the other links."""
        eta = super().find(p, rv)
        if eta is not None:
            return eta
        for other in BernoulliProbit(), BernoulliCloglog():
            if other.find(p, rv) is not None:
                return None
        return find_log_odds(p, rv)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y * eta - log(1 + exp(eta))`` in a form that neither overflows nor cancels."""
        (eta,) = arguments
        return y * eta - pt.softplus(eta)


class BernoulliProbit(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = Phi(eta_n)``, Phi the normal distribution function."""

    name = "bernoulli-probit"
    usage = "pm.Bernoulli(p=pm.math.invprobit(eta))"
    #: pm.math.invprobit has the square root of two in single precision only.
    rtol = 1e-8

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the normal distribution function."""
        return ndtr(eta)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``log Phi(s)`` with s = (2y - 1) eta."""
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

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return the bound from the graph, or a tighter one for small t = exp(eta) and y = 1."""
        # The third and fourth derivatives of log(1 - exp(-t)) never exceed t/2. The bound from the
        # graph is their largest value at any distance: beyond the local region it would be so loose
        # that conditional updates would rarely leave the region.
        limit = super().derivative_bound(order, low, high, y)
        small = 0.5 * np.exp(np.asarray(high, dtype=np.float64))
        return np.where(np.asarray(y) == 1, np.minimum(limit, small), limit)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``log(1 - exp(-t))`` for y = 1, or ``-t`` for y = 0, with t = exp(eta)."""
        # Branches not taken get an argument at which they and their derivatives are finite.
        (eta,) = arguments
        return pt.switch(y > 0.5, log_positive(eta), -pt.exp(pt.switch(y > 0.5, 0.0, eta)))
