"""Scales of noise that differ from row to row: a second predictor, and known errors."""

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.scalar import basic as ps
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.family import JointlySmoothFamily
from pymc_flymc.likelihoods.likelihood import Likelihood, RowParameters
from pymc_flymc.likelihoods.links import as_columns
from pymc_flymc.likelihoods.log_links import find_log_mean
from pymc_flymc.likelihoods.products import is_from, root_of
from pymc_flymc.likelihoods.value_checks import check_values


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
