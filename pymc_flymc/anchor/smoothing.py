"""Likelihoods with non-smooth points, smoothed as posterior uncertainty smooths them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.likelihoods.likelihood import SmoothedLikelihood
from pymc_flymc.regression.derivatives import DEFAULT_SMOOTHING
from pymc_flymc.regression.passes import iterate_rows
from pymc_flymc.regression.regression import Regression


def any_non_smooth(regressions: Sequence[Regression]) -> bool:
    """Return whether a likelihood has non-smooth points."""
    return any(isinstance(each.likelihood, SmoothedLikelihood) for each in regressions)


def smoothed_around(regressions: Sequence[Regression], anchor: Anchor) -> tuple[Regression, ...]:
    """Return regressions, each row smoothed over the posterior sd of its predictor."""
    # The mean of a log density over the posterior is as smooth. Smoothed over more, the sum over
    # rows has its mode elsewhere if residuals are denser on one side of zero: with many rows, many
    # posterior sds away. Smoothed over less, its curvature comes from the few rows nearest to zero.
    return tuple(
        _smoothed_around(each, near) if isinstance(each.likelihood, SmoothedLikelihood) else each
        for each, near in zip(regressions, anchor.parts, strict=True)
    )


def _smoothed_around(regression: Regression, near: AnchorPart) -> Regression:
    likelihood, design = regression.likelihood, regression.design
    assert isinstance(likelihood, SmoothedLikelihood)
    factor, nuisances = near.w_factor[: design.width], near.w[design.width :]
    rounding = np.empty(design.n_rows)
    for rows, x, *_ in iterate_rows(design, regression.y, near.w):
        spread = np.linalg.norm(x @ factor, axis=1)
        # Above zero, for rows that no coefficient moves.
        rounding[rows] = np.clip(likelihood.rounding(spread, nuisances), 1e-10, DEFAULT_SMOOTHING)
    return replace(regression, y=np.column_stack([regression.y, rounding]))
