"""The metric of a Taylor bound: it limits predictors by a radius that all rows share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.chi import chi_moment, chi_quantile

#: Up to this quantile of the Laplace approximation's radius, remainders have only local constants.
LOCAL_QUANTILE = 0.999

#: Smallest variance of a coefficient, relative to its variance given the data alone.
LEAST_COEFFICIENT_VARIANCE = 1e-16


@dataclass(frozen=True)
class Radius:
    """The radius that all rows share, how far they move with it, and how large it is.

    Attributes
    ----------
    spans : list of ndarray
        As of `spans_of`.
    ridge : ndarray, shape (P,)
        Of the metric.
    limit : float
        Up to which remainders have one power, of local constants.
    moment : float
        Mean of a power of the radius over the Laplace approximation.
    """

    spans: list[np.ndarray]
    ridge: np.ndarray
    limit: float
    moment: float

    @classmethod
    def of(cls, anchor: AnchorPart, n_predictors: int, power: int) -> Radius:
        """Return the radius at an anchor, with the mean of one of its powers."""
        (metric, ridge), dimension = metric_of(anchor), dimension_of(anchor)
        limit = chi_quantile(LOCAL_QUANTILE, dimension)
        return cls(spans_of(metric, n_predictors), ridge, limit, chi_moment(power, dimension))


def dimension_of(anchor: AnchorPart) -> int:
    """Dimension of the space in which coefficients vary that the model does not fix."""
    free = int(np.count_nonzero(anchor.w_factor.any(axis=1)))
    # A coefficient that does not move with the parameters at the anchor, such as a product of two
    # zeros, moves further out: the dimension is one at least.
    return max(1, min(free, anchor.w_factor.shape[1]))


def spans_of(metric: np.ndarray, n_predictors: int) -> list[np.ndarray]:
    """Return matrices, the largest ``|x' span| r`` of which limits how far a row's predictors move.

    For one predictor this is the metric itself. For several there is a matrix for each pair of
    classes, because only differences of predictors matter. The first ones are those of the
    predictors themselves, which are differences from the reference class.
    """
    if n_predictors == 1:
        return [metric]
    blocks = metric.reshape(n_predictors, -1, len(metric))
    blocks = np.concatenate([np.zeros_like(blocks[:1]), blocks])  # the reference class
    pairs = zip(*np.triu_indices(len(blocks), 1), strict=True)
    return [np.linalg.qr((blocks[i] - blocks[j]).T, mode="r").T for i, j in pairs]


def metric_of(anchor: AnchorPart) -> tuple[np.ndarray, np.ndarray]:
    """Return C, shape (P, P), and a ridge, shape (P,).

    C C' is the inverse of the data's information plus the diagonal ridge, which stands for the
    prior. It approximates the posterior covariance of the coefficients, and is equal to it for
    independent normal priors.
    """
    d, information = anchor.w_factor.shape[1], anchor.expansion.information.array
    # Coefficients that are fixed, or do not move at the anchor, have almost no variance. Powers of
    # distances over it must still be finite.
    curvature = np.diag(information)
    smallest = LEAST_COEFFICIENT_VARIANCE / np.where(curvature > 0.0, curvature, 1.0)
    variance = np.maximum(np.sum(anchor.w_factor**2, axis=1), smallest)
    # In directions without information the metric is well wider than the Laplace approximation.
    ridge = 0.01 / variance
    free = anchor.w_factor.any(axis=1)  # the others are fixed, such as zeros for some class
    factor = anchor.w_factor[free]
    if 0 < len(factor) <= d and np.linalg.cond(factor) < 1e8:
        inverse, places = np.linalg.pinv(factor), np.flatnonzero(free)
        data = information[np.ix_(places, places)]
        prior = inverse.T @ inverse - data
        # Where the prior has almost no information beside the data, the difference is rounding.
        informed = np.diag(prior) > 1e-6 * np.diag(data)
        prior, places = prior[np.ix_(informed, informed)], places[informed]
        scale = np.sqrt(np.diag(prior))
        # The largest multiple of the diagonal that is nowhere above the prior's precision: a radius
        # that is too large would be beyond the limit too often.
        share = np.linalg.eigvalsh(prior / np.outer(scale, scale)).min(initial=1.0)
        ridge[places] = np.maximum(ridge[places], share * scale**2)
    # If a likelihood is not log-concave, the information of its rows may be indefinite.
    sd = np.sqrt(variance)
    least = np.linalg.eigvalsh(information * np.outer(sd, sd))[0]
    if least < -1e-6:
        ridge += -2.0 * least / variance
    factor = np.linalg.cholesky(information + np.diag(ridge))
    # Slightly enlarged, so that rounding never violates the Cauchy-Schwarz inequality.
    return np.linalg.inv(factor).T * (1.0 + 1e-9), ridge
