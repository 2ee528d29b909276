"""The metric of a Taylor bound: how far predictors can be, by a radius that all rows share."""

from __future__ import annotations

import numpy as np

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.chi import chi_quantile

#: Up to this quantile of the Laplace approximation's radius, remainders have local constants alone.
LOCAL_QUANTILE = 0.999

#: Smallest variance of a coefficient, in what the data alone would leave of it.
LEAST_COEFFICIENT_VARIANCE = 1e-16


def dimension_of(anchor: AnchorPart) -> int:
    """Dimension in which the coefficients vary, but for those that the model fixes."""
    free = int(np.count_nonzero(anchor.w_factor.any(axis=1)))
    # Where none moves with the parameters at first, as a product of two at zero, it does later.
    return max(1, min(free, anchor.w_factor.shape[1]))


def limit_of(anchor: AnchorPart) -> float:
    """Radius up to which remainders have one power, of local constants."""
    return chi_quantile(LOCAL_QUANTILE, dimension_of(anchor))


def spans_of(metric: np.ndarray, n_predictors: int) -> list[np.ndarray]:
    """Return matrices of which one has ``|x' span| r`` above whatever the row x can reach.

    For one predictor the metric itself; for several, one for each pair of classes, as it is
    differences of predictors that count. The first of these are of the predictors themselves.
    """
    if n_predictors == 1:
        return [metric]
    blocks = metric.reshape(n_predictors, -1, len(metric))
    blocks = np.concatenate([np.zeros_like(blocks[:1]), blocks])  # the reference class
    pairs = zip(*np.triu_indices(len(blocks), 1), strict=True)
    return [np.linalg.qr((blocks[i] - blocks[j]).T, mode="r").T for i, j in pairs]


def metric_of(anchor: AnchorPart) -> tuple[np.ndarray, np.ndarray]:
    """Return C of shape (P, P) and a ridge of shape (P,): C C' is the inverse of what the data say.

    That is of their information plus the diagonal ridge, which stands for the prior. C C' is about
    the posterior covariance of the coefficients; for independent normal priors, just that.
    """
    d, information = anchor.w_factor.shape[1], anchor.expansion.information.array
    # Coefficients that are fixed, or do not move at first, have next to none: powers of what is
    # reached over it must be numbers yet.
    curvature = np.diag(information)
    smallest = LEAST_COEFFICIENT_VARIANCE / np.where(curvature > 0.0, curvature, 1.0)
    variance = np.maximum(np.sum(anchor.w_factor**2, axis=1), smallest)
    # Where the data do not decide: scales well beyond the Laplace approximation's.
    ridge = 0.01 / variance
    free = anchor.w_factor.any(axis=1)  # the others are fixed, such as zeros for some class
    factor = anchor.w_factor[free]
    if 0 < len(factor) <= d and np.linalg.cond(factor) < 1e8:
        inverse, places = np.linalg.pinv(factor), np.flatnonzero(free)
        data = information[np.ix_(places, places)]
        prior = inverse.T @ inverse - data
        # Where it says nothing beside the data the difference is rounding.
        informed = np.diag(prior) > 1e-6 * np.diag(data)
        prior, places = prior[np.ix_(informed, informed)], places[informed]
        scale = np.sqrt(np.diag(prior))
        # The largest multiple of the diagonal that is nowhere above the prior's precision: a radius
        # that is too large would be beyond the limit too often.
        share = np.linalg.eigvalsh(prior / np.outer(scale, scale)).min(initial=1.0)
        ridge[places] = np.maximum(ridge[places], share * scale**2)
    # Where a likelihood is not log-concave its rows' curvature may fall short of zero.
    sd = np.sqrt(variance)
    least = np.linalg.eigvalsh(information * np.outer(sd, sd))[0]
    if least < -1e-6:
        ridge += -2.0 * least / variance
    factor = np.linalg.cholesky(information + np.diag(ridge))
    # A little wider than it need be, so that rounding never violates Cauchy-Schwarz.
    return np.linalg.inv(factor).T * (1.0 + 1e-9), ridge
