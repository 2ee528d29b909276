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
from scipy.special import expit, log_expit

from pymc_flymc.graphs.rising import log_rising_of_exp
from pymc_flymc.likelihoods.base import Family, RowParameters
from pymc_flymc.likelihoods.bernoulli import BernoulliLogit
from pymc_flymc.likelihoods.beta import mean_and_size
from pymc_flymc.likelihoods.binomial import BinomialLogit, check_trials
from pymc_flymc.likelihoods.links import unreadable
from pymc_flymc.likelihoods.zero_limits import SECOND, THIRD

__all__ = ["BetaBinomial"]

_LOGISTIC, _BINOMIAL = BernoulliLogit(), BinomialLogit()


class BetaBinomial(Family):
    r"""Observed successes in n trials with the mean chance ``sigmoid(eta_n)``.

    The second predictor is :math:`\tau = \log\phi`. The larger it is, the less the chance varies.
    """

    name = "beta-binomial"
    usage = "pm.BetaBinomial(n=n, alpha=nu * pm.math.sigmoid(eta), beta=nu * pm.math.sigmoid(-eta))"
    distributions: Any = BetaBinomialRV
    n_predictors = 2
    row_data: tuple[str, ...] = ("n",)
    growth = 0.0
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, found inside the graphs of the shapes, and the number of trials.

        Raises
        ------
        UnsupportedModelError
            If the shapes are not products of nu with the logistic function of eta and of -eta; if
            nu is neither the same for all rows, nor data, nor the exponential function of a
            predictor; if n is not a constant.
        ValueError
            If a constant nu is not positive and finite, or n has negative values.
        """
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

    def third_bound(
        self, eta: np.ndarray, reach: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        r"""Return a limit on third derivatives near eta, along directions within the spread.

        With :math:`a = \log A = \tau + \log\sigma(\eta)` and F for R(A, y) as a function of a, the
        third derivative of R(A, y) along a direction is
        :math:`F''' \dot a^3 + 3 F'' \dot a \ddot a + F' \dddot a`, where
        :math:`|\dot a| \le c_\tau + \sigma(-\eta)\, c`, and the others are those of
        :math:`\log\sigma`. The same holds for B with :math:`-\eta`; phi has the first term alone.
        """
        (low, tau_low), (high, tau_high) = eta - reach, eta + reach
        c, c_tau = spread
        successes, trials = y.T
        nearest = np.maximum(np.maximum(low, -high), 0.0)
        w = expit(nearest) * expit(-nearest)
        w1 = _LOGISTIC.derivative_bound(3, low, high, successes)
        total = _limits(trials, eta[1], tau_low, tau_high)[2] * c_tau**3
        for k, at, bottom, top in (
            (successes, eta[0], low, high),
            (trials - successes, -eta[0], -high, -low),
        ):
            ends = tau_low + log_expit(bottom), tau_high + log_expit(top)
            first, second, third = _limits(k, eta[1] + log_expit(at), *ends)
            speed = c_tau + expit(-bottom) * c
            total += third * speed**3 + 3.0 * second * speed * w * c**2 + first * w1 * c**3
        return np.asarray(total)

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return a limit on third derivatives anywhere: of each term of R there is one."""
        return self.third_bound(eta, np.full_like(eta, np.inf), spread, y)


def _limits(
    k: np.ndarray, a: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return limits on the first three derivatives of R(e^a, k) in a, for a from low to high.

    Its terms have the derivatives :math:`p_j = x / (x + j)`, with :math:`x = e^a`, and
    :math:`p_j (1 - p_j) \le \min(p_j, j / x)`; third ones are no larger than these. Sums are at
    most integrals over j, plus the largest term where terms rise and fall. The first sum increases
    with a, and the second grows no faster than the exponential function of what a moves.
    """
    more = np.maximum(k - 1.0, 0.0)

    def of_more(x: np.ndarray) -> np.ndarray:
        """Limit of the sum of p_j from j = 1 on."""
        harmonic = (more > 0.0) * (1.0 + np.log(np.maximum(more, 1.0)))
        return np.asarray(np.minimum(x * harmonic, x * np.log1p(more / x)))

    first = np.minimum(k, (k >= 1.0) + of_more(np.exp(np.clip(high, -300.0, 300.0))))
    x = np.exp(np.clip(a, -300.0, 300.0))
    t = k / x
    area = x * (np.log1p(t) - t / (1.0 + t))
    second = np.minimum(of_more(x), 0.5 * t * more)
    second = np.minimum(second, SECOND * (more > 0.0) + area)
    second = second * np.exp(np.minimum(np.maximum(high - a, a - low), 700.0))
    return first, np.minimum(second, SECOND * more), np.minimum(second, THIRD * more)
