r"""Beta variables with a logistic mean, and beta-binomial ones: successes in trials.

With the mean :math:`\mu = \sigma(\eta)` and :math:`\phi = e^\tau`, which PyMC calls nu, the shapes
are :math:`A = \mu \phi` and :math:`B = (1 - \mu) \phi`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import BetaBinomialRV, BetaRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import digamma, expit, polygamma

from pymc_flymc.graphs.gammas import log_gamma
from pymc_flymc.graphs.tools import first_equals, free_inputs
from pymc_flymc.likelihoods.bernoulli import BinomialLogit, check_trials
from pymc_flymc.likelihoods.checks import check_parameter, check_values
from pymc_flymc.likelihoods.family import Family, JointlySmoothFamily
from pymc_flymc.likelihoods.jets import SOFTPLUS, log_rising_of_exp
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import (
    as_columns,
    find_log_mean,
    find_log_odds,
    find_predictor,
    unreadable,
)
from pymc_flymc.likelihoods.products import is_from, without

_BINOMIAL = BinomialLogit()


class Beta(Family):
    r"""Observed proportions of mean ``sigmoid(eta_n)``; :math:`\tau` is the second predictor."""

    name = "beta"
    usage = "pm.Beta(mu=pm.math.sigmoid(eta), nu=nu)"
    distributions: Any = BetaRV
    n_predictors = 2

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, found inside the graphs of the shapes."""
        a, b = rv.owner.op.dist_params(rv.owner)
        predictors = _mean_and_size(a, b, "nu", rv)
        if predictors is None:
            raise unreadable(rv, "mu", "logistic", f"{self.usage}, one nu for all rows")
        return RowParameters(self, predictors)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return proportions, strictly between zero and one, as float64."""
        values = np.asarray(values, dtype=np.float64)
        check_values((values > 0.0) & (values < 1.0), values, name, "between 0 and 1")
        return values

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log density without terms in y alone."""
        # log Gamma(A) = log Gamma(1 + A) - log A is accurate for tiny shapes, too.
        eta, tau = arguments
        phi, mean, other = pt.exp(tau), pt.sigmoid(eta), pt.sigmoid(-eta)
        small = tau - pt.softplus(-eta) - pt.softplus(eta)
        gammas = [log_gamma(1.0 + v) for v in (phi, phi * mean, phi * other)]
        ends = phi * (mean * pt.log(y) + other * pt.log1p(-y))
        return gammas[0] - gammas[1] - gammas[2] + small + ends

    def third_bound(
        self, eta: np.ndarray, half_width: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        r"""Return a bound on the third derivatives near eta, along directions within the spread.

        With :math:`w = \mu (1 - \mu)` and :math:`h = \mathrm{logit}(y) - \psi(A) + \psi(B)` the
        derivative in eta is :math:`\phi w h`. Products of w, h and their derivatives are bounded
        factor by factor; bounds from the graph would be far larger, because its terms cancel. For
        digamma functions and their derivatives

        .. math:: 1 < x \psi'(x) < 1 + 1/x, \quad -1/x < x \psi'(x) + x^2 \psi''(x) < 0, \quad
                  1/2 < x^2 \psi'(x) - x < 1, \quad
                  1/2 < 3 x^2 \psi'(x) + x^3 \psi''(x) - 2 x < 1,

        so that h, and the derivative itself, grow little with tau.
        """
        (low, tau_low), (high, tau_high) = eta - half_width, eta + half_width
        c, c_tau = spread
        with np.errstate(all="ignore"):
            w, w1, w2 = (SOFTPLUS.limit(order, low, high) for order in (2, 3, 4))
            phi, phi_low = np.exp(tau_high), np.exp(tau_low)
            a, b = phi_low * expit(low), phi_low * expit(-high)
            both = polygamma(1, a) + polygamma(1, b)
            most = np.maximum(1.0 / a, 1.0 / b)
            h = np.max([np.abs(_residual(end, eta[1], y)) for end in (low, high)], axis=0)
            h = h + half_width[1] * most
            h1 = phi * w * both
            h2 = phi * w1 * both + (phi * w) ** 2 * -polygamma(2, np.minimum(a, b))
            centre = np.abs(_slope_in_tau(eta[0], eta[1], y)) + half_width[0] * phi * w * (h + most)
            in_tau = (centre + 1.5 * half_width[1]) * np.exp(half_width[1]) + 1.5
            near = (
                phi * (w2 * h + 2.0 * w1 * h1 + w * h2) * c**3
                + 3.0 * phi * (w1 * (h + most) + w * h1) * c**2 * c_tau
                + 3.0 * (phi * w) ** 2 * (1.0 / a**2 + 1.0 / b**2) * c**2 * c_tau
                + 3.0 * phi * w * (h + 3.0 * most) * c * c_tau**2
                + in_tau * c_tau**3
            )
        size = np.maximum(np.abs(tau_low), np.abs(tau_high))
        return np.asarray(np.fmin(near, _anywhere(phi, size, y) * (c + c_tau) ** 3))

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a bound on third derivatives which grows with phi, no faster than its square."""
        # As |psi(x)| <= |log x| + 1/x and phi w / A <= 1, all of them are at most a multiple of
        # phi, of its logarithm, and of the logarithms of y and 1 - y.
        tau = eta[1]
        limit = _anywhere(np.exp(tau), np.abs(tau), y) * spread.sum(axis=0) ** 3
        return np.asarray(limit), 2.0 * spread[1]


class BetaBinomial(JointlySmoothFamily):
    r"""Observed successes in n trials; their probability is beta with mean ``sigmoid(eta_n)``.

    Up to terms in y alone, the log-likelihood of y successes is
    :math:`R(A, y) + R(B, n - y) - R(\phi, n)` with :math:`R(x, k) = \sum_{j < k} \log(x + j)`.
    The larger :math:`\tau` is, the less the probability varies.
    """

    name = "beta-binomial"
    usage = "pm.BetaBinomial(n=n, alpha=nu * pm.math.sigmoid(eta), beta=nu * pm.math.sigmoid(-eta))"
    distributions: Any = BetaBinomialRV
    n_predictors = 2
    row_data: tuple[str, ...] = ("n",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, found inside the graphs of the shapes, and the number of trials."""
        n, a, b = rv.owner.op.dist_params(rv.owner)
        check_trials(n, rv)
        predictors = _mean_and_size(a, b, "alpha + beta", rv)
        if predictors is None:
            usage = f"{self.usage}, one nu for all rows"
            raise unreadable(rv, "mean", "logistic", usage)
        return RowParameters(self, predictors, row_data=[n])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check successes and trials, shape (N, 2), as `BinomialLogit.read_observed`."""
        return _BINOMIAL.read_observed(values, name)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without the binomial coefficient."""
        (eta, tau), (successes, trials) = arguments, y
        value: Any = log_rising_of_exp(tau - pt.softplus(-eta), successes)
        value += log_rising_of_exp(tau - pt.softplus(eta), trials - successes)
        return value - log_rising_of_exp(tau, trials)


def _mean_and_size(
    a: TensorVariable, b: TensorVariable, name: str, rv: TensorVariable
) -> TensorVariable | None:
    """Return eta and log nu, shape (N, 2), of the shapes `_shapes_of` understands, or None."""
    found = _shapes_of(a, b, rv)
    if found is None:
        return None
    eta, nu = found
    check_parameter(nu, name, rv)
    known = nu.ndim == 0 or not free_inputs([nu])
    # PyTensor keeps short Python floats in single precision.
    tau: Any = pt.log(nu.astype("float64")) if known else find_log_mean(nu, rv)
    if tau is None:
        return None
    return as_columns(eta, tau)


def _shapes_of(a: TensorVariable, b: TensorVariable, rv: TensorVariable) -> tuple[Any, Any] | None:
    """Return eta and nu of shapes ``nu sigmoid(eta)`` and ``nu (1 - sigmoid(eta))``, or None."""
    first = first_equals(pt.add(a, b))

    def same(p: Any, q: Any) -> bool:
        return first.get(p, p) is first.get(q, q)

    for mean, nu in _products(a):
        for other, nu_too in _products(b):
            nu = without(nu, DimShuffle)
            if not same(nu, without(nu_too, DimShuffle)):
                continue
            eta, minus = (find_predictor(v, expit) for v in (mean, other))
            if eta is None and is_from(other, ps.Sub):
                one, less = other.owner.inputs
                if _is_number(one, 1) and same(less, mean):  # mu[group] and 1 - mu[group]
                    eta = find_log_odds(mean, rv)
                    minus = None if eta is None else -eta
            if eta is None or minus is None:
                continue
            (sign, one), (sign_too, two) = _signed(eta), _signed(minus)
            if sign == -sign_too and same(one, two):
                return eta, nu.squeeze() if all(nu.type.broadcastable) else nu
    return None


def _signed(v: Any) -> tuple[int, Any]:
    """Return a sign, 1 or -1, and the variable v is that sign times."""
    if is_from(v, ps.Neg):
        sign, inner = _signed(v.owner.inputs[0])
        return -sign, inner
    for factor, other in _products(v):
        if _is_number(factor, -1):
            sign, inner = _signed(other)
            return -sign, inner
    return 1, v


def _is_number(v: Any, number: int) -> bool:
    """Return whether a variable equals a number in all rows."""
    v = without(v, DimShuffle)
    return isinstance(v, Constant) and v.data.size == 1 and bool(v.data == number)


def _products(v: TensorVariable) -> list[tuple[Any, Any]]:
    """Return the two factors of a product, in both orders; nothing for any other variable."""
    if not is_from(v, ps.Mul) or len(v.owner.inputs) != 2:
        return []
    p, q = v.owner.inputs
    return [(p, q), (q, p)]


def _residual(eta: np.ndarray, tau: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return h."""
    phi = np.exp(tau)
    means = digamma(phi * expit(eta)) - digamma(phi * expit(-eta))
    return np.asarray(np.log(y) - np.log1p(-y) - means)


def _slope_in_tau(eta: np.ndarray, tau: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the derivative in tau."""
    phi, mean, other = np.exp(tau), expit(eta), expit(-eta)
    one = mean * (np.log(y) - digamma(phi * mean))
    return np.asarray(phi * (digamma(phi) + one + other * (np.log1p(-y) - digamma(phi * other))))


def _anywhere(phi: np.ndarray, size: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a bound on all third derivatives; `size` is ``|log phi|``."""
    return np.asarray(phi * (2.0 * size - np.log(y) - np.log1p(-y) + 2.0) + 6.0)
