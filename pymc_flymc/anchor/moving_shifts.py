"""Directions in the parameters that leave all coefficients' rows alone, and depend on scales."""

from collections.abc import Iterator, Sequence

import numpy as np

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.anchor.expanded_density import ExpandedDensity, nearby
from pymc_flymc.kernels.shared_scales import NON_CENTRED, SharedScales
from pymc_flymc.kernels.shifts import NO_SHIFTS, Shifts
from pymc_flymc.regression.design import Design, within_factors
from pymc_flymc.regression.matrices import LARGEST_DENSE, SymmetricMatrix
from pymc_flymc.regression.regression import Regression, slices_of

#: Differences below this share of a direction are rounding.
ROUNDING = 1e-8


def find_shifts(
    density: ExpandedDensity,
    regressions: Sequence[Regression],
    anchor: Anchor,
    scales: SharedScales,
) -> Shifts:
    """Find common shifts of effects that are multiplied by scales.

    A wrong guess here costs speed, not correctness: moves are exact for any directions. Those of
    other effects do not depend on parameters, and the preconditioner knows them. With more than
    `LARGEST_DENSE` parameters none is looked for.
    """
    of_effects = np.repeat(scales.scale, np.diff(scales.first))
    multiplied = scales.power == NON_CENTRED
    if not multiplied.any() or len(anchor.theta) > LARGEST_DENSE:
        return NO_SHIFTS
    theta = nearby(anchor.theta)
    scale = np.full(len(theta), -1)
    scale[scales.effects[multiplied]] = of_effects[multiplied]
    free = np.setdiff1d(np.arange(len(theta)), scales.scale)
    elsewhere = theta.copy()
    elsewhere[scales.scale] += 0.5
    jacobian, other = density.jacobian(theta), density.jacobian(elsewhere)

    def at(theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights * np.where(scale >= 0, np.exp(-theta[scale]), 1.0)

    found = []
    for direction in _directions(regressions, anchor.parts):
        change = np.zeros(len(theta))
        change[free] = np.linalg.lstsq(jacobian[:, free], direction)[0]
        change[np.abs(change) < ROUNDING * np.max(np.abs(change))] = 0.0
        weights = change / at(theta, np.ones(len(theta)))
        moved = jacobian @ change, other @ at(elsewhere, weights)
        is_shift = all(np.max(np.abs(each - direction)) < ROUNDING for each in moved)
        if is_shift and np.any(scale[weights != 0.0] >= 0):
            found.append(weights)
    if not found:
        return NO_SHIFTS
    places = [np.flatnonzero(weights) for weights in found]
    return Shifts(
        first=np.cumsum([0, *map(len, places)]),
        place=np.concatenate(places),
        weight=np.concatenate([w[place] for w, place in zip(found, places, strict=True)]),
        scale=np.concatenate([scale[place] for place in places]),
    )


def _directions(
    regressions: Sequence[Regression], parts: Sequence[AnchorPart]
) -> Iterator[np.ndarray]:
    """Yield directions in the coefficients of all likelihoods that change no predictor."""
    spans = slices_of(regressions)
    for regression, part, span in zip(regressions, parts, spans, strict=True):
        design = regression.design
        is_found = design.n_sparse and design.stored is None and design.format.written_out
        for k in range(design.n_predictors if is_found else 0):
            own = slice(k * design.width, (k + 1) * design.width)
            information = SymmetricMatrix(part.expansion.information.array[own, own])
            for direction in _of_predictor(design, information):
                out = np.zeros(spans[-1].stop)
                out[span][own] = direction
                yield out


def _of_predictor(design: Design, information: SymmetricMatrix) -> Iterator[np.ndarray]:
    """Yield directions in the coefficients of one predictor that do not change it."""
    common, q = design.common_shifts, design.n_sparse
    m = design.width - q
    for source, target in zip(common.sources, common.targets, strict=True):
        out = np.zeros(design.width)
        out[m + source], out[m + target] = 1.0, -1.0
        yield out
    # Against each factor by itself: the prior leaves the means of few effects the most room.
    for factor in common.factors:
        within, spanned = within_factors(information.arrow(q), [factor])
        for column in np.flatnonzero(spanned):
            out = np.zeros(design.width)
            out[column], out[m:] = 1.0, -within[:, column]
            yield out
