"""Refuse a model that keeps probabilities off 0 and 1 if its rows may reach the guard.

Bambi's models do so. With the guard, a row whose outcome is almost impossible has the
log-likelihood -36; with the link alone, which is what Firefly reads, a lower one. The two differ
only if there are such rows. With the link these rows pull the coefficients until no such row is
left, and with the guard the model may give them up instead. So the rows at the mode are not enough:
rows that may be given up are left out together, and evaluated at the coefficients of the other
rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.bernoulli import Bernoulli
from pymc_flymc.likelihoods.links import guards_of
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import map_rows
from pymc_flymc.regression.regression import Regression

#: Rows that are left out: the worst predicted, with log-likelihoods below `BADLY`, and those whose
#: predictors vary with the coefficients `OUTLYING` times as much as the median row's or more. At
#: most `SUSPECTS` of either kind.
BADLY, OUTLYING, SUSPECTS = -6.0, 5.0, 128
#: Directions of the coefficients in which predictors vary.
DIRECTIONS = 8
#: A probability this near to 0 or 1 may be kept off.
NEAR = 1e-13
#: Largest slope of the log-likelihood of a row whose outcome agrees with such a probability.
SLOPE = 1e-6


def check_guards(
    rv: Any,
    regressions: Sequence[Regression],
    members: Sequence[np.ndarray],
    anchors: Sequence[AnchorPart],
) -> None:
    """Refuse an observed variable if the model may keep probabilities of its rows off 0 and 1."""
    if not guards_of(rv):
        return
    for regression, own, anchor in zip(regressions, members, anchors, strict=True):
        if regression.design.stored is not None:
            raise UnsupportedModelError(
                f"the probabilities of {rv.name!r} are kept off 0 and 1, as by pt.switch(pt.eq(p, "
                "1), 1 - eps, p), and Firefly cannot tell for rows of data= whether that "
                "matters. Write the link alone, as in logit_p=eta"
            )
        suspects = _suspects(regression, anchor)
        if not len(suspects):
            continue
        far = np.unique(own[suspects[_are_far(regression, anchor, suspects)]])
        if len(far):
            raise UnsupportedModelError(
                f"the model keeps the probabilities of {rv.name!r} off 0 and 1, as Bambi does, so "
                "that log-likelihoods of rows stop at -36. With the link alone, which Firefly "
                f"reads, they do not. That matters for row {far[0]:,}, one of {len(far):,}: its "
                "outcome is all but impossible where the other rows have the coefficients. Check "
                "the row, or write the link alone, as in pm.Bernoulli(logit_p=eta), in a model of "
                "PyMC's"
            )


def _suspects(regression: Regression, anchor: AnchorPart) -> np.ndarray:
    """Return rows that may be given up, in one pass over the data."""
    design, k = regression.design, regression.design.n_predictors
    rng = np.random.default_rng(20141104)
    steps = anchor.w_factor @ rng.standard_normal((anchor.w_factor.shape[1], DIRECTIONS))
    steps = steps[: k * design.width].T.reshape(DIRECTIONS, k, design.width)

    def of_rows(
        rows: slice, x: RowMatrix, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        value = regression.derivatives(arguments, y).value
        moved = np.stack([x.predictors(step) for step in steps])
        return value, np.sqrt(np.mean(moved**2, axis=0)).max(axis=0)

    values, sizes = map(
        np.concatenate, zip(*map_rows(design, regression.y, anchor.w, of_rows), strict=True)
    )
    found = []
    for score, limit in ((-values, -BADLY), (sizes, OUTLYING * float(np.median(sizes)))):
        worst = np.argsort(-score, kind="stable")[:SUSPECTS]
        found.append(worst[score[worst] > limit])
    return np.unique(np.concatenate(found))


def _are_far(regression: Regression, anchor: AnchorPart, rows: np.ndarray) -> np.ndarray:
    """Return which rows have, now or left out, a probability near 0 or 1 against their outcome."""
    # With gradient g and information I of these rows, and V the posterior covariance of their
    # predictors, one Newton step without them moves their predictors by -(1 - V I)^-1 V g.
    design, y = regression.design.rows(rows), regression.y[rows]
    k, n = design.n_predictors, len(rows)
    eta = design.predictor(anchor.w)
    nuisances = anchor.w[k * design.width :, None] * np.ones(n)
    now = regression.derivatives(np.concatenate([eta.T, nuisances]), y)
    without_offset = replace(design, offset=np.empty((0, k)))
    factor = without_offset.predictors(anchor.w_factor.T)[0].transpose(0, 2, 1).reshape(n * k, -1)
    covariance = factor @ factor.T
    information = np.zeros((n, k, n, k))
    information[range(n), :, range(n), :] = -now.second.transpose(2, 0, 1)
    left = np.eye(n * k) - covariance @ information.reshape(n * k, n * k)
    step = np.linalg.lstsq(left, -covariance @ now.first.T.ravel())[0].reshape(n, k)
    base = unweighted(regression.likelihood)
    far = np.zeros(n, bool)
    for moved in (eta, eta + step):
        p = base.inverse_link(moved) if isinstance(base, Bernoulli) else expit(moved)
        slope = regression.derivatives(np.concatenate([moved.T, nuisances]), y).first.T
        far |= (((p < NEAR) | (p > 1.0 - NEAR)) & (np.abs(slope) > SLOPE)).any(axis=1)
    return far
