"""Heavy-tailed noise whose scale differs from row to row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import CauchyRV, StudentTRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.functions import THIRD
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.scales_by_row import ScalesByRow
from pymc_flymc.likelihoods.value_checks import known_number

#: More than the largest value of ``24 a (2 a - 1) sqrt(1 - a)``, at a = (11 + sqrt 41) / 20.
SKEWED = 5.572


@dataclass(frozen=True)
class StudentTScales(ScalesByRow):
    r"""Values with Student-t noise of squared scale V, see `ScalesByRow`; nu = 1 is the Cauchy.

    With :math:`Q = \nu V + (y - \eta)^2` the log-likelihood is, up to a constant,
    :math:`\frac{\nu}{2} \log V - \frac{\nu + 1}{2} \log Q`. `read` fills in nu.
    """

    nu: float = 4.0
    name = "student-t-scales"
    usage = "pm.StudentT(nu=4.0, mu=eta, sigma=pm.math.exp(tau))"
    distributions: Any = StudentTRV | CauchyRV

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, in units of the outcomes, known standard errors, and nu."""
        nu, mu, sigma = [pt.ones(()), *rv.owner.op.dist_params(rv.owner)][-3:]
        instead = (
            ", and its sigma has a value for each row: give nu as a number, such as nu=4.0, or "
            "sigma as one number for all rows, maybe times data, sigma=sigma * c"
        )
        number = known_number(nu, "nu", rv, instead)
        return self.of_scales(replace(self, nu=number), mu, sigma, rv, rv)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log density without terms in nu alone."""
        (eta, tau), (value, error) = arguments, y
        log_v = self.log_squared_scale(tau, error)
        tail = pt.log1p(pt.sqr(value - eta) * pt.exp(-log_v) / self.nu)
        return -0.5 * (log_v + (self.nu + 1.0) * tail)

    def third_bound(
        self, eta: np.ndarray, half_width: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return bounds on third derivatives within a half-width of eta, where Q is smallest."""
        (eta_0, tau), (away, away_tau), (value, error) = eta, half_width, y.T
        r = np.maximum(np.abs(value - eta_0) - away, 0.0)
        with np.errstate(over="ignore"):
            return self._limit(
                self.nu * (np.exp(2.0 * (tau - away_tau)) + error**2) + r**2, spread, error
            )

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a bound which grows like ``V**-1.5``."""
        (_, tau), (_, error) = eta, y.T
        with np.errstate(over="ignore"):
            limit = self._limit(self.nu * (np.exp(2.0 * tau) + error**2), spread, error)
        return limit, 1.5 * self.growth_of_precision(tau, error) * spread[1]

    def _limit(self, q: np.ndarray, spread: np.ndarray, error: np.ndarray) -> np.ndarray:
        r"""Return a bound on the third derivatives where Q is at least q.

        log Q is twice the real part of :math:`\log(r + i \sqrt{\nu V})`, for a residual r: its
        third derivative in eta is at most 4 over :math:`Q^{3/2}`. With :math:`a = \nu e^{2\tau}
        / Q`, which is no more than :math:`1 - r^2 / Q`, the third derivative twice in eta is
        :math:`4 a |3 r^2 / Q - \nu V / Q| / Q \le 4 / Q`, the one twice in tau
        :math:`8 a |2 a - 1| |r| / Q \le 8 a |2 a - 1| \sqrt{(1 - a) / Q}`. In tau alone log Q and
        log V are softplus functions of :math:`2 \tau`, or linear.
        """
        c, c_tau = spread / np.stack([np.sqrt(q), np.ones_like(q)])
        times = 0.5 * (self.nu + 1.0)
        terms = 4.0 * c**3 + 12.0 * c**2 * c_tau + SKEWED * c * c_tau**2
        in_tau = 8.0 * THIRD * c_tau**3
        known = np.where(error != 0.0, 0.5 * self.nu, 0.0)
        return np.asarray(times * (terms + in_tau) + known * in_tau)
