"""Tangents in the squared residual: bounds for location-scale likelihoods with heavy tails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.bounds.base import Preparation, Problem, check_slack
from pymc_flymc.bounds.quadratic import prepare_quadratic
from pymc_flymc.likelihoods import Likelihood, StudentT
from pymc_flymc.native import NativeFunction
from pymc_flymc.statistics import collapsed_quadratic, quadratic_size

__all__ = ["Tangent"]


class Tangent:
    r"""Gaussian lower bound on a likelihood that is log-convex in the squared residual.

    With :math:`u = ((y - \eta)/\sigma)^2`, the log-likelihoods of the Student t and its kin are
    convex in u, so that tangents are lower bounds, Gaussian in :math:`\eta`. What is fixed for each
    row is the slope of the tangent, :math:`-\omega_n`, at the anchor; where it touches then follows
    the nuisance parameters: the bound is the best one of its slope for all of their values, and
    their sums over rows collapse.

    Parameters
    ----------
    slack : float, default 2
        Lowers each row's log bound by `slack` times the gap expected over the posterior; see
        `JaakkolaJordan`.

    Raises
    ------
    ValueError
        If `slack` is negative or not finite.
    """

    name = "tangent"
    n_shared = 0

    def __init__(self, *, slack: float = 2.0) -> None:
        self.slack = check_slack("Tangent", slack)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is log-convex in the squared residual."""
        return isinstance(likelihood, StudentT)

    def n_constants(self, likelihood: Likelihood) -> int:
        """Outcome, slack, slope and its logarithm."""
        return 4

    def tightness(
        self, problem: Problem, rows: slice, arguments: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Each row's slope omega at the anchor, shape (n,)."""
        eta, *nuisances = arguments
        squared = ((y - eta) * np.exp(-nuisances[-1])) ** 2
        return _location_scale(problem.likelihood).slope(squared, nuisances)

    def coefficients(
        self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients of ``-omega (y - eta)^2``, which sigma^2 divides in the collapsed sum."""
        return tightness, 2.0 * tightness * y, -tightness * y**2

    def features(self, tightness: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Slack, one, omega and log omega."""
        return np.stack([slack, np.ones_like(slack), tightness, np.log(tightness)])

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Columns y, slack, omega and log omega."""
        return np.column_stack([y, slack, tightness, np.log(tightness)])

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data."""
        return prepare_quadratic(self, problem, log_factor)

    def collapsed(
        self,
        likelihood: Likelihood,
        w: TensorVariable,
        statistics: TensorVariable,
        n_coefficients: int,
    ) -> tuple[TensorVariable, TensorVariable]:
        """Graph of the collapsed sum; the rows share nothing but the nuisance parameters."""
        family, n_nuisances = _location_scale(likelihood), len(likelihood.nuisances)
        width = n_coefficients - n_nuisances
        nuisances: list[Any] = [w[width + i] for i in range(n_nuisances)]
        squares = collapsed_quadratic(w[:width], statistics, width) * pt.exp(-2.0 * nuisances[-1])
        start = quadratic_size(statistics, width)
        slack, n_rows, slope, log_slope = (statistics[start + i] for i in range(4))
        offset = family.tangent_offset(n_rows, slope, log_slope, nuisances)
        log_normaliser = n_rows * family.log_normaliser(nuisances)
        return log_normaliser + squares + offset - slack, pt.zeros((0,))

    def gap(
        self,
        likelihood: Likelihood,
        arguments: Sequence[TensorVariable],
        constants: TensorVariable,
        shared: TensorVariable,
    ) -> TensorVariable:
        """Graph of the gap; the normaliser is part of likelihood and bound alike."""
        family = _location_scale(likelihood)
        eta, *nuisances = arguments
        y, slack, slope, log_slope = (constants[:, i] for i in range(4))
        squared = pt.sqr((y - eta) * pt.exp(-nuisances[-1]))
        offset = family.tangent_offset(1.0, slope, log_slope, nuisances)
        return family.log_kernel(eta, nuisances, y) - offset + slope * squared + slack


def _location_scale(likelihood: Likelihood) -> StudentT:
    return cast(StudentT, likelihood)
