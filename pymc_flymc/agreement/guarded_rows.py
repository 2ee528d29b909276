"""Refuse a model that keeps probabilities off 0 and 1 if its rows may come as far as that.

Bambi does. A row whose outcome is all but impossible has the log-likelihood -36 then, and a lower
one by the link, which is what Firefly reads. The two differ only where there are such rows: with
the link they pull the coefficients until none is left, and the model may give them up instead. So
it is not enough to look at the rows at the mode. Rows that may be given up are left out together,
and looked at where the others would have the coefficients.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.bernoulli import Bernoulli
from pymc_flymc.likelihoods.guards import guards_of
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import map_rows
from pymc_flymc.regression.regression import Regression

#: Rows that are left out are those predicted worst, with log-likelihoods below this, and those
#: whose predictors vary with the coefficients by so many times more than the median row's: at most
#: so many of each kind.
BADLY, OUTLYING, SUSPECTS = -6.0, 5.0, 128
#: Directions of the coefficients in which predictors vary.
DIRECTIONS = 8
#: A probability that is as near to 0 or 1 as that may be kept off.
NEAR = 1e-13
#: Of a row whose outcome agrees with such a probability the log-likelihood hardly changes.
SLOPE = 1e-6


def check_guards(
    rv: Any,
    regressions: Sequence[Regression],
    members: Sequence[np.ndarray],
    anchors: Sequence[AnchorPart],
) -> None:
    """Look for rows of an observed variable whose probabilities the model may keep off 0 and 1.

    Parameters
    ----------
    rv : TensorVariable
    regressions : sequence of Regression
        Its rows.
    members : sequence of ndarray of int
        For each regression, numbers of the observed values that its rows belong to.
    anchors : sequence of AnchorPart

    Raises
    ------
    UnsupportedModelError
        If there are any; the message names the first. Also if rows are out of core.
    """
    if not guards_of(rv):
        return
    for regression, own, anchor in zip(regressions, members, anchors, strict=True):
        if regression.design.stored is not None:
            raise UnsupportedModelError(
                f"the probabilities of {rv.name!r} are kept off 0 and 1, as by pt.switch(pt.eq(p, "
                "1), 1 - eps, p), and Firefly cannot tell for rows out of core whether that "
                f"matters. Write the link alone, as in logit_p=eta"
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
                f"the row, or write pm.Bernoulli(logit_p=eta) in a model of PyMC's"
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
    """Whether each row has a probability near 0 or 1, against its outcome: now, or left out.

    With gradient g and information I of these rows, and V the posterior covariance of their
    predictors, one Newton step without them moves their predictors by ``-(1 - V I)^-1 V g``.
    """
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
