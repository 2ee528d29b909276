"""Noise whose scale differs from row to row: normal and Student t."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as ps
from pytensor.tensor.random.basic import CauchyRV, LogNormalRV, NormalRV, StudentTRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.checks import check_values, is_positive, known_number
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.jets import THIRD
from pymc_flymc.likelihoods.likelihood import Likelihood, RowParameters
from pymc_flymc.likelihoods.links import as_columns, find_log_mean
from pymc_flymc.likelihoods.products import is_from, root_of


class ScalesByRow(JointlySmoothFamily):
    r"""Values with noise around :math:`\eta_n`, of squared scale :math:`V = e^{2\tau_n} + s_n^2`.

    :math:`\tau_n` is the second predictor, and the :math:`s_n` are data, such as standard errors.
    Outcomes are in units of their standard deviation.
    """

    n_predictors: int = 2
    row_data: tuple[str, ...] = ("known standard errors",)

    def of_scales(
        self, likelihood: Likelihood, mu: Any, sigma: Any, y: Any, rv: TensorVariable
    ) -> RowParameters:
        """Return eta and tau, in units of y or of its logarithm, and known standard errors."""
        known, free = _squares(sigma)
        tau = find_log_mean(sigma if free is None else free, rv)
        if tau is None:
            raise UnsupportedModelError(
                f"sigma of the observed variable {rv.name!r} has a value for each row, in a "
                "form that Firefly does not sample. It samples a number for all rows, maybe times "
                "data, sigma=sigma * c; the exponential function of a linear predictor, "
                "sigma=pm.math.exp(tau); a number "
                f"and known standard errors, sigma=pm.math.sqrt(se**2 + sigma**2)"
            )
        tau = tau if free is None else 0.5 * tau
        spread = pt.std(y)
        unit = pt.switch(spread > 0.0, spread, 1.0)
        predictors = as_columns(mu / unit, tau - pt.log(unit))
        return RowParameters(likelihood, predictors, row_data=[pt.sqrt(known)], unit=unit)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return finite values with known standard errors, (N, 2)."""
        values = np.asarray(values, dtype=np.float64)
        y, error = values.T
        check_values(np.isfinite(y), y, name, "finite")
        check_values(np.isfinite(error), error, f"the standard error of {name}", "finite numbers")
        return values

    def log_squared_scale(self, tau: Any, error: Any) -> Any:
        """Return the graph of log V."""
        none = pt.eq(error, 0.0)
        log_error = pt.log(pt.switch(none, 1.0, error))
        both = 2.0 * log_error + pt.softplus(2.0 * (tau - log_error))
        return pt.switch(none, 2.0 * tau, both)

    def growth_of_precision(self, tau: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Return the rate at which 1/V grows as tau falls, which is its largest from there down."""
        with np.errstate(divide="ignore"):
            return np.asarray(2.0 * expit(2.0 * (tau - np.log(np.abs(error)))))


def _squares(sigma: TensorVariable) -> tuple[Any, Any]:
    """Return the data in the argument of a root, and the rest; zero and None for anything else."""
    inside = root_of(sigma)
    if inside is None or not is_from(inside, ps.Add):
        return pt.constant(0.0), None
    known = [v for v in inside.owner.inputs if not free_inputs([v])]
    free = [v for v in inside.owner.inputs if free_inputs([v])]
    if not known or len(free) != 1:
        return pt.constant(0.0), None
    return pt.add(*known) if len(known) > 1 else known[0], free[0]


#: Added to absolute residuals, in units of the outcomes, for bounds that hold at any distance.
LEAST_RESIDUAL = 0.25


@dataclass(frozen=True)
class NormalScales(ScalesByRow):
    r"""Values with normal noise of variance V, see `ScalesByRow`.

    Up to a constant the log-likelihood is :math:`-(\log V + (y - \eta)^2 / V) / 2`.
    """

    of_logarithms: bool = False  #: Whether the model observes values whose logarithms are normal.
    name = "normal-scales"
    usage = "pm.Normal(mu=eta, sigma=pm.math.exp(tau))"
    distributions: Any = NormalRV | LogNormalRV

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, in units of the outcomes, and known standard errors."""
        mu, sigma = rv.owner.op.dist_params(rv.owner)
        of_logarithms = isinstance(rv.owner.op, LogNormalRV)
        likelihood = replace(self, of_logarithms=of_logarithms)
        return self.of_scales(likelihood, mu, sigma, pt.log(rv) if of_logarithms else rv, rv)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return values, or their logarithms, with known standard errors, (N, 2)."""
        if self.of_logarithms:
            y = values[:, 0]
            check_values(is_positive(y), y, name, "positive and finite")
            values = np.column_stack([np.log(y), values[:, 1]])
        return super().read_observed(values, name)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-(log V + (y - eta)^2 / V) / 2``."""
        (eta, tau), (value, error) = arguments, y
        log_v = self.log_squared_scale(tau, error)
        return -0.5 * (log_v + pt.sqr(value - eta) * pt.exp(-log_v))

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Return a bound on the third derivatives which grows with 1/V, and with the residual.

        With :math:`p = e^{2 \tau} / V` the derivatives of 1/V in tau are :math:`-2 p / V`,
        :math:`(8 p^2 - 4 p) / V` and :math:`(-48 p^3 + 48 p^2 - 8 p) / V`, of absolute values at
        most 2, 4 and 8 over V; the third derivative of log V is at most 8/(6 sqrt 3). A residual r
        is at most |r| + d at a distance d, which grows no faster than :math:`R\, e^{d/R}`, with R =
        |r| + b for any b.
        """
        (eta_0, tau), (c, c_tau), (value, error) = eta, spread, y.T
        r = np.abs(value - eta_0) + LEAST_RESIDUAL
        with np.errstate(over="ignore"):
            precision = 1.0 / (np.exp(2.0 * tau) + error**2)
        terms = 4.0 * r**2 * c_tau**3 + 12.0 * r * c * c_tau**2 + 6.0 * c**2 * c_tau
        rate = self.growth_of_precision(tau, error) * c_tau + 2.0 * c / r
        return np.asarray(precision * terms + 4.0 * THIRD * c_tau**3), rate


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
