"""Heavy-tailed noise around a linear predictor: robust regression."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.random.basic import CauchyRV, LaplaceRV, LogisticRV, StudentTRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.gammas import log_gamma
from pymc_flymc.likelihoods.checks import check_parameter, scalar_parameter
from pymc_flymc.likelihoods.family import Family
from pymc_flymc.likelihoods.likelihood import LOG_SCALE, RowParameters
from pymc_flymc.likelihoods.products import number_times_data


def scale_and_unit(scale: Any, what: str, rv: TensorVariable) -> tuple[Any, Any]:
    """Return the factors of a scale: a number for all rows, and data, or None without data."""
    unit = None
    if not all(scale.type.broadcastable):
        found = number_times_data(scale)
        if found is None:
            raise UnsupportedModelError(
                f"{what} of the observed variable {rv.name!r} has a value for each row; "
                f"Firefly needs one for all rows, or one times data: {what}={what} * c"
            )
        scale, unit = found
        check_parameter(unit, what, rv)
        # If rows are out of core, only the first have been checked.
        unit = pt.switch(pt.gt(unit, 0.0) & pt.lt(unit, np.inf), unit, np.nan)
    # PyTensor keeps short Python floats in single precision.
    return scalar_parameter(scale, what, rv).astype("float64"), unit


class LocationScale(Family):
    """Observed values with noise around the predictor, log-convex in u = ((y - eta)/sigma)^2.

    The last nuisance parameter is log sigma. A tangent in u is described by *features* of the row,
    the first of which is minus its slope.
    """

    nuisances: tuple[str, ...] = (LOG_SCALE,)
    #: PyMC's name of sigma.
    scale = "sigma"
    #: Number of features of a tangent.
    n_features = 2

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return location and log sigma."""
        mu, sigma = rv.owner.op.dist_params(rv.owner)
        return self.in_units(mu, [], sigma, self.scale, rv)

    def in_units(
        self, mu: Any, nuisances: list[Any], scale: Any, what: str, rv: TensorVariable
    ) -> RowParameters:
        """Return location, log nuisances and log scale, in units of data in the scale."""
        scale, unit = scale_and_unit(scale, what, rv)
        # PyTensor keeps short Python floats in single precision.
        logs = [pt.log(each.astype("float64")) for each in (*nuisances, scale)]
        mu = mu if unit is None else mu / unit
        return RowParameters(self, mu, logs, unit=unit)

    def log_normaliser(self, nuisances: Sequence[Any]) -> Any:
        """Return the graph of the part of the log density that does not depend on the residual."""
        return -nuisances[-1]

    def log_kernel(self, z: Any, nuisances: Sequence[Any]) -> Any:
        """Return the part in z = (y - eta)/sigma, convex in z^2, without a linear term."""
        raise NotImplementedError

    def skewness(self, nuisances: Sequence[Any]) -> Any:
        """Return the graph of the coefficient of z in the log density, or None."""
        return None

    def tangent(self, squared: np.ndarray, nuisances: Sequence[np.ndarray]) -> np.ndarray:
        """Return the features of the tangents that touch at u = squared, shape (F, n)."""
        raise NotImplementedError

    def tangent_offset(self, one: Any, features: Sequence[Any], nuisances: Sequence[Any]) -> Any:
        """Return the graph of c in the tangent ``log_kernel >= c - slope u``, for any nuisances.

        It is linear in (one, features), so that the sum of c follows from their sums over rows.
        """
        raise NotImplementedError

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log density."""
        eta, *nuisances = arguments
        z = (y - eta) * pt.exp(-nuisances[-1])
        value = self.log_normaliser(nuisances) + self.log_kernel(z, nuisances)
        skewness = self.skewness(nuisances)
        return value if skewness is None else value + skewness * z


class StudentT(LocationScale):
    r"""Observed values with Student-t noise around the predictor; nu = 1 is the Cauchy.

    The density is :math:`g(u; \nu)/\sigma` with :math:`u = ((y - \eta)/\sigma)^2`. Its logarithm
    :math:`-\frac{\nu+1}{2}\log(1 + u/\nu)` + const is convex in u.
    """

    name = "student-t"
    usage = "pm.StudentT(nu=nu, mu=eta, sigma=sigma), pm.Cauchy(alpha=eta, beta=beta)"
    distributions = StudentTRV | CauchyRV
    nuisances: tuple[str, ...] = ("log nu", LOG_SCALE)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return location, log nu and log sigma, which may be constants."""
        parameters = rv.owner.op.dist_params(rv.owner)
        if isinstance(rv.owner.op, CauchyRV):
            mu, beta = parameters
            return self.in_units(mu, [pt.ones(())], beta, "beta", rv)
        nu, mu, sigma = parameters
        return self.in_units(mu, [scalar_parameter(nu, "nu", rv)], sigma, "sigma", rv)

    def log_normaliser(self, nuisances: Sequence[Any]) -> Any:
        """Return the graph of the part of the log density that does not depend on the residual."""
        log_nu, log_sigma = nuisances
        nu = pt.exp(log_nu)
        gammas = log_gamma(0.5 * (nu + 1.0)) - log_gamma(0.5 * nu)
        return gammas - 0.5 * (log_nu + np.log(np.pi)) - log_sigma

    def log_kernel(self, z: Any, nuisances: Sequence[Any]) -> Any:
        """Return the graph of the part of the log density that depends on the residual."""
        nu = pt.exp(nuisances[0])
        return -0.5 * (nu + 1.0) * pt.log1p(pt.sqr(z) / nu)

    def tangent(self, squared: np.ndarray, nuisances: Sequence[np.ndarray]) -> np.ndarray:
        """Return minus the slope, and its logarithm, shape (2, n)."""
        nu = np.exp(nuisances[0])
        slope = 0.5 * (nu + 1.0) / (nu + squared)
        return np.stack([slope, np.log(slope)])

    def tangent_offset(self, one: Any, features: Sequence[Any], nuisances: Sequence[Any]) -> Any:
        """Return the graph of c for any nu; nu determines where the tangent touches."""
        (slope, log_slope), log_nu = features, nuisances[0]
        nu = pt.exp(log_nu)
        half = 0.5 * (nu + 1.0)
        return half * (one * (1.0 - pt.log(half) + log_nu) + log_slope) - nu * slope


class Logistic(LocationScale):
    """Observed values with logistic noise: log density ``-2 log 2 cosh(z/2)``."""

    name = "logistic"
    usage = "pm.Logistic(mu=eta, s=s)"
    distributions = LogisticRV
    scale = "s"

    def log_kernel(self, z: Any, nuisances: Sequence[Any]) -> Any:
        """Return the graph of ``-2 log 2 cosh(z/2)``, without overflow."""
        return -z - 2.0 * pt.softplus(-z)

    def tangent(self, squared: np.ndarray, nuisances: Sequence[np.ndarray]) -> np.ndarray:
        """Return minus the slope, ``tanh(z/2)/(2 z)``, and the value at u = 0, shape (2, n)."""
        z = np.maximum(np.sqrt(squared), 1e-10)
        slope = np.tanh(0.5 * z) / (2.0 * z)
        return np.stack([slope, slope * z**2 - z - 2.0 * np.log1p(np.exp(-z))])

    def tangent_offset(self, one: Any, features: Sequence[Any], nuisances: Sequence[Any]) -> Any:
        """Return the graph of c, which is a constant of the row."""
        return features[1]


class AsymmetricLaplace(LocationScale):
    r"""Observed values with Laplace noise, whose two sides may differ: quantile regression.

    With :math:`a, d = (\kappa \pm 1/\kappa)/2` the log density is :math:`-a |z| - d z` plus a
    constant. For the Laplace distribution itself kappa is one.
    """

    name = "asymmetric-laplace"
    usage = "pm.Laplace(mu=eta, b=b), pm.AsymmetricLaplace(q=q, mu=eta, b=b)"
    distributions = LaplaceRV | pm.AsymmetricLaplace.rv_type
    nuisances: tuple[str, ...] = ("log kappa", LOG_SCALE)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return location, log kappa and the log scale, which may be constants."""
        kappa: Any = pt.ones(())
        mu: Any
        if isinstance(rv.owner.op, LaplaceRV):
            mu, scale = rv.owner.op.dist_params(rv.owner)
        else:
            rate, kappa, mu = rv.owner.op.dist_params(rv.owner)
            check_parameter(rate, "b", rv)
            # As float64: PyTensor computes the reciprocal of a short integer in single precision.
            scale = pt.reciprocal(rate.astype("float64"))
        expected = "positive and finite; it is sqrt(q / (1 - q)) for a q between 0 and 1"
        kappa = scalar_parameter(kappa, "kappa", rv, expected)
        return self.in_units(mu, [kappa], scale, "b", rv)

    def log_normaliser(self, nuisances: Sequence[Any]) -> Any:
        """Return the graph of the part of the log density that does not depend on the residual."""
        return -pt.log(2.0 * pt.cosh(nuisances[0])) - nuisances[-1]

    def log_kernel(self, z: Any, nuisances: Sequence[Any]) -> Any:
        """Return the graph of ``-a |z|``."""
        return -pt.cosh(nuisances[0]) * pt.abs(z)

    def skewness(self, nuisances: Sequence[Any]) -> Any:
        """Return the graph of -d."""
        return -pt.sinh(nuisances[0])

    def smoothed(
        self, arguments: Sequence[TensorVariable], y: TensorVariable, rounding: TensorVariable
    ) -> TensorVariable:
        """Return the log-likelihood with ``|z|`` smoothed near zero, `rounding` scales wide."""
        # The curvature, which is zero except at z = 0, is then spread over the rows near zero.
        eta, *nuisances = arguments
        z = (y - eta) * pt.exp(-nuisances[-1])
        rounded = pt.sqrt(pt.sqr(z) + pt.sqr(rounding))
        kernel = -pt.cosh(nuisances[0]) * rounded + self.skewness(nuisances) * z
        return self.log_normaliser(nuisances) + kernel

    def rounding(self, spread: np.ndarray, nuisances: np.ndarray) -> np.ndarray:
        """Return the spread in units of the scale."""
        return np.asarray(spread * np.exp(-nuisances[-1]))

    def tangent(self, squared: np.ndarray, nuisances: Sequence[np.ndarray]) -> np.ndarray:
        """Return minus the slope, ``a/(2 |z|)``, and its inverse, shape (2, n)."""
        slope = np.cosh(nuisances[0]) / (2.0 * np.sqrt(np.maximum(squared, 1e-20)))
        return np.stack([slope, 1.0 / slope])

    def tangent_offset(self, one: Any, features: Sequence[Any], nuisances: Sequence[Any]) -> Any:
        """Return the graph of c = -a^2 / (4 slope), for any kappa."""
        return -0.25 * pt.sqr(pt.cosh(nuisances[0])) * features[1]
