"""Binary outcomes, alone (logistic, probit or cloglog links) or counted (logistic)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, GeometricRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit, ndtr

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.checks import check_counts, check_parameter, check_values
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.jets import log_normal_cdf, log_positive
from pymc_flymc.likelihoods.likelihood import LOGISTIC, RowParameters
from pymc_flymc.likelihoods.links import find_log_odds, find_predictor, unreadable


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


class BinomialLogit(SmoothFamily):
    """Observed successes in n trials, each with ``P(success) = sigmoid(eta_n)``."""

    name = "binomial-logit"
    form = LOGISTIC
    usage = "pm.Binomial(n=n, logit_p=eta)"
    distributions: Any = BinomialRV
    row_data: tuple[str, ...] = ("n",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log odds, found inside the graph of p, and the number of trials."""
        n, p = rv.owner.op.dist_params(rv.owner)
        check_trials(n, rv)
        eta = find_log_odds(p, rv)
        if eta is None:
            usage = f"{self.usage} or p=pm.math.sigmoid(eta), without clipping or mixtures"
            raise unreadable(rv, "p", "logistic", usage)
        return RowParameters(self, eta, row_data=[n])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check successes and trials, shape (N, 2), and return them as float64."""
        values = np.asarray(values, dtype=np.float64)
        successes, trials = values.T
        whole = (values == np.floor(values)).all(axis=1) & (trials < np.inf)
        bad = np.flatnonzero(~(whole & (successes >= 0) & (successes <= trials)))
        if bad.size:
            first = bad[0]
            raise ValueError(
                f"{name} has {bad.size} values that are not counts between 0 and n, first in row "
                f"{first}: {successes[first]:g} with n = {trials[first]:g}; correct or drop these "
                "rows"
            )
        return values

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y eta - n log(1 + exp(eta))``, without terms in y alone."""
        (eta,), (successes, trials) = arguments, y
        return successes * eta - trials * pt.softplus(eta)


class Geometric(BinomialLogit):
    """Observed numbers of trials up to the first success, as one success in so many trials."""

    name = "geometric"
    usage = "pm.Geometric(p=pm.math.sigmoid(eta))"
    distributions: Any = GeometricRV

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log odds; the values themselves are the numbers of trials."""
        (p,) = rv.owner.op.dist_params(rv.owner)
        eta = find_log_odds(p, rv)
        if eta is None:
            raise unreadable(rv, "p", "logistic", self.usage)
        return RowParameters(self, eta, row_data=[rv])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return one success, and the number of trials, shape (N, 2)."""
        trials = check_counts(values[:, 0], name)
        check_values(trials > 0, trials, name, "counts from 1 on")
        return np.column_stack([np.ones_like(trials), trials])


def check_trials(n: TensorVariable, rv: TensorVariable) -> None:
    """Refuse numbers of trials that are negative, or that depend on variables."""
    if free_inputs([n]):
        raise UnsupportedModelError(
            f"n of the observed variable {rv.name!r} depends on other variables; Firefly needs "
            "numbers of trials that are data: a constant or pm.Data"
        )
    expected = "zero or more, and not missing (PyMC makes such an integer of NaN)"
    check_parameter(n, "n", rv, expected, lambda values: values >= 0)
