"""Normal noise whose scale differs from row to row: a second predictor, and known errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as ps
from pytensor.tensor.random.basic import LogNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.functions import THIRD
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import as_columns, find_log_mean
from pymc_flymc.likelihoods.products import is_from, root_of
from pymc_flymc.likelihoods.value_checks import check_values, is_positive

__all__ = ["NormalScales"]

#: Residuals count as at least so many units in limits that hold at any distance.
LEAST = 0.25


@dataclass(frozen=True)
class NormalScales(JointlySmoothFamily):
    r"""Values with normal noise around :math:`\eta_n`, of variance :math:`V = e^{2\tau_n} + s_n^2`.

    :math:`\tau_n` is the second predictor, and the :math:`s_n` are data, such as standard errors.
    Up to a constant the log-likelihood is :math:`-(\log V + (y - \eta)^2 / V) / 2`. Outcomes are in
    units of their standard deviation.

    Attributes
    ----------
    of_logarithms : bool
        Whether the model observes the values whose logarithms are normal; it is read from there.
    """

    of_logarithms: bool = False
    name = "normal-scales"
    usage = "pm.Normal(mu=eta, sigma=pm.math.exp(tau))"
    distributions: Any = NormalRV | LogNormalRV
    n_predictors: int = 2
    row_data: tuple[str, ...] = ("known standard errors",)
    growth = 2.0 + 2.0 / LEAST
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and tau, in units of the outcomes, and known standard errors."""
        mu, sigma = rv.owner.op.dist_params(rv.owner)
        known, free = _squares(sigma)
        tau = find_log_mean(sigma if free is None else free, rv)
        if tau is None:
            raise UnsupportedModelError(
                f"sigma of the observed variable {rv.name!r} has a value for each row, and is none "
                "of what Firefly samples: a number for all rows, maybe times data, sigma=sigma * c;"
                " the exponential function of a linear predictor, sigma=pm.math.exp(tau); a number "
                "and known standard errors, sigma=pm.math.sqrt(se**2 + sigma**2)"
            )
        tau = tau if free is None else 0.5 * tau
        of_logarithms = isinstance(rv.owner.op, LogNormalRV)
        y = pt.log(rv) if of_logarithms else rv
        spread = pt.std(y)
        unit = pt.switch(spread > 0.0, spread, 1.0)
        return RowParameters(
            replace(self, of_logarithms=of_logarithms),
            as_columns(mu / unit, tau - pt.log(unit)),
            row_data=[pt.sqrt(known)],
            unit=unit,
        )

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return values, or their logarithms, with known standard errors, (N, 2)."""
        y, error = np.asarray(values, dtype=np.float64).T
        good, what = np.isfinite(y), "finite"
        if self.of_logarithms:
            good, what = is_positive(y), "positive and finite"
        check_values(good, y, name, what)
        check_values(np.isfinite(error), error, f"the standard error of {name}", "finite numbers")
        return np.column_stack([np.log(y) if self.of_logarithms else y, error])

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-(log V + (y - eta)^2 / V) / 2``."""
        (eta, tau), (value, error) = arguments, y
        none = pt.eq(error, 0.0)
        log_error = pt.log(pt.switch(none, 1.0, error))
        log_v = pt.switch(none, 2.0 * tau, 2.0 * log_error + pt.softplus(2.0 * (tau - log_error)))
        return -0.5 * (log_v + pt.sqr(value - eta) * pt.exp(-log_v))

    def third_scale(self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray) -> np.ndarray:
        r"""Return a limit on third derivatives at a distance d, which grows as `growth` says.

        With :math:`p = e^{2 \tau} / V` the derivatives of 1/V in tau are :math:`-2 p / V`,
        :math:`(8 p^2 - 4 p) / V` and :math:`(-48 p^3 + 48 p^2 - 8 p) / V`, of sizes at most 2, 4
        and 8 over V, and that of log V is at most 8/(6 sqrt 3). 1/V grows no faster than
        exp(2 d), and a residual r, which is at most |r| + d there, no faster than
        :math:`(|r| + b)\, e^{d/b}` for any b.
        """
        (eta_0, tau), (c, c_tau), (value, error) = eta, spread, y.T
        r = np.abs(value - eta_0) + LEAST
        with np.errstate(over="ignore"):
            precision = 1.0 / (np.exp(2.0 * tau) + error**2)
        terms = 4.0 * r**2 * c_tau**3 + 12.0 * r * c * c_tau**2 + 6.0 * c**2 * c_tau
        return np.asarray(precision * terms + 4.0 * THIRD * c_tau**3)


def _squares(sigma: TensorVariable) -> tuple[Any, Any]:
    """Return what of the argument of a root is data, and the rest; zero and None of all else."""
    inside = root_of(sigma)
    if inside is None or not is_from(inside, ps.Add):
        return pt.constant(0.0), None
    known = [v for v in inside.owner.inputs if not free_inputs([v])]
    free = [v for v in inside.owner.inputs if free_inputs([v])]
    if not known or len(free) != 1:
        return pt.constant(0.0), None
    return pt.add(*known) if len(known) > 1 else known[0], free[0]
