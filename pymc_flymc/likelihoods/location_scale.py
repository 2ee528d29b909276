"""Heavy-tailed noise around a linear predictor: robust regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import CauchyRV, StudentTRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.likelihoods.base import RowParameters, scalar_parameter

__all__ = ["StudentT"]


class StudentT:
    r"""Observed values with Student-t noise around the predictor; nu = 1 is the Cauchy.

    The density is :math:`g(u; \nu)/\sigma` with :math:`u = ((y - \eta)/\sigma)^2`. Its logarithm
    :math:`-\frac{\nu+1}{2}\log(1 + u/\nu)` + const is convex in u.
    """

    name = "student-t"
    n_predictors = 1
    nuisances: tuple[str, ...] = ("log nu", "log sigma")
    row_data: tuple[str, ...] = ()

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is ``pm.StudentT`` or ``pm.Cauchy``."""
        return rv.owner is not None and isinstance(rv.owner.op, StudentTRV | CauchyRV)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return location, log nu and log sigma, which may be constants.

        Raises
        ------
        UnsupportedModelError
            If nu or sigma differ from row to row.
        """
        parameters = rv.owner.op.dist_params(rv.owner)
        if isinstance(rv.owner.op, CauchyRV):
            mu, sigma = parameters
            nu: Any = pt.ones(())
        else:
            nu, mu, sigma = parameters
        scalars = [scalar_parameter(nu, "nu", rv), scalar_parameter(sigma, "sigma", rv)]
        return RowParameters(mu, [pt.log(scalar) for scalar in scalars])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check that observed values are finite, and return them as float64.

        Raises
        ------
        ValueError
            If there are NaN or infinite values.
        """
        values = np.asarray(values, dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"{name} has NaN or infinite values in {bad.size} rows, first in row {bad[0]}; "
                "drop or impute these rows"
            )
        return values

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return the log density."""
        eta, *nuisances = arguments
        return self.log_normaliser(nuisances) + self.log_kernel(eta, nuisances, y)

    def log_normaliser(self, nuisances: Sequence[Any]) -> Any:
        """Graph of the part of the log density that does not depend on the residual."""
        log_nu, log_sigma = nuisances
        nu = pt.exp(log_nu)
        gammas = pt.gammaln(0.5 * (nu + 1.0)) - pt.gammaln(0.5 * nu)
        return gammas - 0.5 * (log_nu + np.log(np.pi)) - log_sigma

    def log_kernel(self, eta: Any, nuisances: Sequence[Any], y: Any) -> Any:
        """Graph of the part of the log density that depends on the residual."""
        log_nu, log_sigma = nuisances
        nu = pt.exp(log_nu)
        squared = pt.sqr((y - eta) * pt.exp(-log_sigma))
        return -0.5 * (nu + 1.0) * pt.log1p(squared / nu)

    def slope(self, squared: np.ndarray, nuisances: Sequence[np.ndarray]) -> np.ndarray:
        """Minus the derivative of the log kernel in u = ((y - eta)/sigma)^2, shape (n,)."""
        nu = np.exp(nuisances[0])
        return 0.5 * (nu + 1.0) / (nu + squared)

    def tangent_offset(self, one: Any, slope: Any, log_slope: Any, nuisances: Sequence[Any]) -> Any:
        """Graph of c in the tangent ``log_kernel >= c - slope u`` of given slope, for any nu.

        It is linear in (one, slope, log_slope): from their sums over rows comes the sum of c.
        """
        log_nu, _ = nuisances
        nu = pt.exp(log_nu)
        half = 0.5 * (nu + 1.0)
        return half * (one * (1.0 - pt.log(half) + log_nu) + log_slope) - nu * slope
