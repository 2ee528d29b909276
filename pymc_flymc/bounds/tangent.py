"""Tangents in the squared residual: bounds for location-scale likelihoods with heavy tails."""

from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem, check_slack
from pymc_flymc.bounds.jaakkola_jordan import RowTable, TightenedBound
from pymc_flymc.errors import check, is_number
from pymc_flymc.kernels.layout import quadratic_places
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood, SmoothedLikelihood, says
from pymc_flymc.likelihoods.location_scale import LocationScale
from pymc_flymc.likelihoods.weighted import unweighted, weights_of
from pymc_flymc.regression.expansion import (
    collapsed_quadratic,
    pack_quadratic,
    quadratic_size,
)
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import add_up


class Columns(NamedTuple):
    """Places of the constants of a row: outcome, slack, and the first of the tangent's features."""

    outcome: int = 0
    slack: int = 1
    features: int = 2

    def weight(self, n_features: int) -> int:
        """Return the place of the weight, where a family has one."""
        return self.features + n_features


class Sums(NamedTuple):
    """Places behind the quadratic's statistics: sums of slack, weights, and the features."""

    slack: int = 0
    weight: int = 1
    features: int = 2

    def residuals(self, n_features: int) -> int:
        """Return the place of the sums of residuals and of rows, each with its weight."""
        return self.features + n_features


COLUMNS, SUMS = Columns(), Sums()


class Tangent(TightenedBound):
    r"""Gaussian lower bound on a likelihood that is log-convex in the squared residual.

    With :math:`u = ((y - \eta)/\sigma)^2`, the log-likelihoods of the Student t and its kin are
    convex in u, so that tangents are lower bounds, Gaussian in :math:`\eta`. The slope of each
    row's tangent, :math:`-\omega_n`, is fixed: that at the mean of u over the Laplace
    approximation, which makes the expected gap smallest. The point where it touches changes with
    the nuisance parameters: for all of their values the bound is the best one with its slope, and
    sums over rows collapse. The term of skewed noise that is linear in the residual is part of the
    bound as it is.

    Parameters
    ----------
    xi : float, optional
        The residual, in units of sigma, at which the bound touches every row's likelihood, at the
        nuisance parameters of the anchor. By default the bound is tuned row by row, as above.
        ``xi=0`` is the paper's untuned bound; under Laplace noise, not smooth there, it must be
        positive.
    slack : float, default 4
        As in `JaakkolaJordan`.

    Raises
    ------
    ValueError
        If `xi` or `slack` is negative or not finite, or `xi` is zero under Laplace noise.

    See Also
    --------
    JaakkolaJordan : of logistic regression.

    References
    ----------
    Maclaurin, D. and Adams, R. P. (2014). Firefly Monte Carlo: exact MCMC with subsets of data.
    UAI. Section 4.3.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflyHMC(bound=Tangent(slack=8)))
    """

    name = "tangent"

    def __init__(self, xi: float | None = None, *, slack: float = 4.0) -> None:
        good = xi is None or (is_number(xi) and 0 <= xi < np.inf)
        check(good, "Tangent: xi", "None or a finite number >= 0", xi)
        self.xi = xi
        self.slack = check_slack("Tangent", slack)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is log-convex in the squared residual."""
        family = unweighted(likelihood)
        of = "log_likelihood", "log_kernel"
        return isinstance(family, LocationScale) and says(family, "tangent", of)

    def n_constants(self, likelihood: Likelihood) -> int:
        """Outcome, slack, the features of the tangent, its slope first, and weight."""
        n_features = _location_scale(likelihood).n_features
        return COLUMNS.weight(n_features) + len(likelihood.row_data)

    def tightness(
        self, problem: Problem, rows: slice, arguments: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Features of each row's tangent, shape (F, n)."""
        eta, *nuisances = arguments
        family, (y, _) = _location_scale(problem.likelihood), weights_of(problem.likelihood, y)
        if self.xi is not None:
            if self.xi == 0 and isinstance(family, SmoothedLikelihood):
                name = family.name
                raise ValueError(
                    f"Tangent: xi must be positive under {name} noise, which is not smooth at zero"
                )
            return family.tangent(np.full(len(y), self.xi**2), nuisances)
        design, factor = problem.design, problem.own.w_factor
        n_columns = design.X.shape[1]
        spread = design.X[rows] @ factor[:n_columns]
        if design.intercept:
            spread += factor[n_columns]
        squared = ((y - eta) ** 2 + np.sum(spread**2, axis=1)) * np.exp(-2.0 * nuisances[-1])
        return family.tangent(squared, nuisances)

    def constants(self, tightness: np.ndarray, y: np.ndarray, slack: np.ndarray) -> np.ndarray:
        """Columns y, slack, the features, and weight."""
        y, *weight = y.T if y.ndim > 1 else [y]
        return np.column_stack([y, slack, *tightness, *weight])

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data.

        The statistics are those of ``-omega (y - eta)^2``, which the collapsed sum divides by
        sigma^2; the sums of slack, weights and the features; and the weighted sums of the residuals
        and of the rows.
        """
        table = RowTable(self, problem, log_factor)
        own = partial(sums_of_rows, problem.likelihood)
        packed = pack_sums(problem, add_up(own(*rows) for rows in table.fill()))
        return Preparation(packed, table.constants, table.bright)

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the collapsed sum; the rows share nothing but the nuisance parameters."""
        family, n_nuisances = _location_scale(likelihood), len(likelihood.nuisances)
        width = n_coefficients - n_nuisances
        nuisances: list[Any] = [w[width + i] for i in range(n_nuisances)]
        squares = collapsed_quadratic(w[:width], statistics, width) * pt.exp(-2.0 * nuisances[-1])
        start: Any = quadratic_size(statistics, width)
        slack, n_rows = statistics[start + SUMS.slack], statistics[start + SUMS.weight]
        features = [statistics[start + SUMS.features + i] for i in range(family.n_features)]
        offset = family.tangent_offset(n_rows, features, nuisances)
        total: Any = n_rows * family.log_normaliser(nuisances) + squares + offset - slack
        skewness = family.skewness(nuisances)
        if skewness is not None:
            start = start + SUMS.residuals(family.n_features)
            u = w[:width] - statistics[quadratic_places(width).centre]
            residuals = statistics[start] - pt.sum(statistics[start + 1 : start + 1 + width] * u)
            total = total + skewness * residuals * pt.exp(-nuisances[-1])
        return total, pt.zeros((0,))

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the gap; the other terms of the log density cancel with those of the bound."""
        family = _location_scale(likelihood)
        eta, *nuisances = arguments
        y, slack = constants[:, COLUMNS.outcome], constants[:, COLUMNS.slack]
        end = COLUMNS.weight(family.n_features)
        features = [constants[:, i] for i in range(COLUMNS.features, end)]
        weight = constants[:, end] if likelihood.row_data else None
        z = (y - eta) * pt.exp(-nuisances[-1])
        offset = family.tangent_offset(1.0, features, nuisances)
        gap = family.log_kernel(z, nuisances) - offset + features[0] * pt.sqr(z)
        return (gap if weight is None else weight * gap) + slack


def sums_of_rows(
    likelihood: Likelihood,
    x: RowMatrix,
    eta: np.ndarray,
    y: np.ndarray,
    tightness: np.ndarray,
    slack: np.ndarray,
) -> tuple[Any, ...]:
    """Return what is added up over rows, for `pack_sums`."""
    y, weight = weights_of(likelihood, y)
    omega = weight * tightness[0]
    residual = y - eta
    return (
        float(np.sum(-omega * residual**2)),
        (2.0 * omega * residual) @ x,
        x.sandwich(omega),
        np.array([slack.sum(), weight.sum(), *(weight * tightness).sum(axis=1)]),
        np.append(np.sum(weight * residual), weight @ x),
    )


def pack_sums(problem: Problem, sums: tuple[Any, ...]) -> np.ndarray:
    """Return the statistics of the bound, from the sums of all rows at the anchor."""
    constant, linear, curvature, *further = sums
    centre = problem.own.w[: problem.design.width]
    return np.concatenate([pack_quadratic(constant, centre, linear, curvature), *further])


def _location_scale(likelihood: Likelihood) -> LocationScale:
    return cast(LocationScale, unweighted(likelihood))
