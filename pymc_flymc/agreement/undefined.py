"""Refuse a model that has a positive density where the density that was read is zero.

The density that is read has logarithms of scales, of variances and of factors of means. A chain
never goes where their argument is not positive, but the model may allow that: ``sqrt(se**2 + v)``
for ``v < 0``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pymc_flymc.agreement.compared_points import Points
from pymc_flymc.agreement.evaluation import of_reading
from pymc_flymc.agreement.gathering import NotGatheredError
from pymc_flymc.agreement.values import Values
from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.refusals import LEAVE_OUT
from pymc_flymc.reading.flat import DensityGraph

#: Evaluates a part of the model's own log density at points. With the checks of a distribution's
#: parameters, which depend on all rows, it takes a pass over the rows.
Expected = Callable[[Points, bool], Values]

#: Distances from the anchor, in units of the Laplace approximation, in some direction and in the
#: opposite one.
DISTANCES = (1.0, 2.0, 3.0, 4.0, 6.0, 10.0)
#: Largest number of points at which all rows are evaluated.
SOME = 3


def check_defined(
    graph: DensityGraph,
    anchor: Anchor,
    points: Points,
    expected: Sequence[Expected],
    rng: np.random.Generator,
) -> None:
    """Look for points at which the model has a density, and what was read of it has none.

    Parameters
    ----------
    graph : DensityGraph
        What was read.
    anchor : Anchor
    points : Points
        Variables of other steps have the values of the first point.
    expected : sequence of callable
        All parts of the model's own log density.

    Raises
    ------
    UnsupportedModelError
        If there are any.
    """
    others = points.flat[0][1]
    steps = [s * rng.standard_normal(points.layout.size) for s in DISTANCES]
    thetas = [anchor.geometry.unwhiten(sign * step) for step in steps for sign in (1.0, -1.0)]
    flat = [(points.layout.round(theta), others) for theta in thetas]
    rest, coefficients = of_reading(graph, flat, 0)
    finite = np.isfinite(rest.values[:, 0])
    for of_part in coefficients:
        finite &= [each is not None and bool(np.isfinite(each[0]).all()) for each in of_part]
    lost = replace(points, flat=[at for at, good in zip(flat, finite, strict=True) if not good])
    if not lost.flat:
        return
    try:
        for with_checks in (False, True):  # PyMC's own functions may have values beyond its checks
            known = np.ones(len(lost.flat), bool)
            for evaluate in expected:
                known &= np.isfinite(evaluate(lost, with_checks).values).all(axis=1)
            left = [at for at, good in zip(lost.flat, known, strict=True) if good]
            lost = replace(lost, flat=left[:SOME])
            if not left:
                return
    except NotGatheredError:
        return
    raise UnsupportedModelError(
        f"the model has a density at ({lost.describe(0)}), and what Firefly reads of it has none "
        "there, so that no chain would go there: it takes logarithms of scales, variances and "
        "factors of means. Give the variables that these are made of priors of positive values, "
        "such as pm.HalfNormal, or write squares of them, as in pm.math.sqrt(se**2 + tau**2). "
        f"{LEAVE_OUT}"
    )
