"""Refuse a model that has a density where the density that was read has none, or vice versa.

The density that is read has logarithms of scales, of variances and of factors of means. A chain
never goes where their argument is not positive, but the model may allow that: ``sqrt(se**2 + v)``
for ``v < 0``. The model has no density where its own checks of parameters fail: a probability of
zeros must not be above one, even if no row is zero.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pymc_flymc.agreement.compared import ComparedRest, ComparedRows, Points
from pymc_flymc.agreement.negative_factors import negative_together
from pymc_flymc.agreement.parameter_checks import violated_checks
from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.errors import UnsupportedModelError

#: Distances from the anchor, in units of the Laplace approximation, in opposite directions.
DISTANCES = (1.0, 2.0, 3.0, 4.0, 6.0, 10.0)
#: Largest number of points at which all rows are evaluated.
SOME = 3


def points_around(anchor: Anchor, points: Points, rng: np.random.Generator) -> Points:
    """Return points about the anchor; other steps' variables are those of the first of `points`.

    Random directions rarely change the signs of all factors of a product that may be negative
    together, so points at which they are negative are among these.
    """
    others = points.flat[0][1]
    steps = [s * rng.standard_normal(points.layout.size) for s in DISTANCES]
    thetas = [anchor.geometry.unstandardise(sign * step) for step in steps for sign in (1.0, -1.0)]
    thetas += negative_together(points.graph, anchor.geometry, others)
    return replace(points, flat=[(points.layout.round(theta), others) for theta in thetas])


def check_defined(points: Points, parts: Sequence[ComparedRows | ComparedRest]) -> None:
    """Refuse a model that has a density at some points at which the one that was read has none."""
    lost = points.at(~_is_read(points))
    if not lost.flat:
        return
    for with_checks in (False, True):  # PyMC's own functions may have values beyond its checks
        known = np.ones(len(lost.flat), bool)
        for part in parts:
            known &= np.isfinite(part.expected(lost, with_checks)).all(axis=1)
        lost = lost.at(known & (np.cumsum(known) <= SOME))
        if not lost.flat:
            return
    raise UnsupportedModelError(
        f"the model has a density at ({lost.describe(0)}), and what Firefly reads of it has none "
        "there, so that no chain would go there: it takes logarithms of scales, variances and "
        "factors of means. Give the variables that these are made of priors of positive values, "
        "such as pm.HalfNormal, or write squares of them, as in pm.math.sqrt(se**2 + tau**2), "
        f"where the initial value of tau must not be zero"
    )


def check_possible(points: Points, parts: Sequence[ComparedRows]) -> None:
    """Refuse a model whose checks exclude points at which the density that was read is positive."""
    for rows in parts:
        violated = violated_checks(rows.logp, rows.chosen, points.named)
        beyond = _is_read(points) & np.array([message is not None for message in violated])
        if not beyond.any():
            continue
        own, _ = rows.evaluate(points, 0)
        beyond &= np.isfinite(own.values).all(axis=1)
        for t in np.flatnonzero(beyond)[:SOME]:
            at = points.at(np.arange(len(points.flat)) == t)
            # A failed check of one component of a mixture leaves the other components.
            if np.isneginf(rows.expected(at, True)).any():
                raise UnsupportedModelError(
                    f"the model has no density at ({at.describe(0)}), where {violated[t]!r} "
                    "does not hold, and what Firefly reads of it has one. Give the variable "
                    "a prior that does not go there, such as pm.Beta for a probability, "
                    "and please report this model"
                )


def _is_read(points: Points) -> np.ndarray:
    """Return at which points what was read has a density, apart from its rows."""
    rest, coefficients = points.read(0)
    finite = np.isfinite(rest[:, 0])
    for of_part in coefficients:
        finite &= [each is not None and bool(np.isfinite(each).all()) for each in of_part]
    return finite
