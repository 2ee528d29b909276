"""Messages on a search that has found no mode, with the reason."""

import numpy as np

from pymc_flymc.anchor.collinear import Lines
from pymc_flymc.anchor.exact_fits import why_scale_collapsed
from pymc_flymc.anchor.objective import Objective
from pymc_flymc.regression.expansion import JointExpansion

#: A Newton step towards separated outcomes shrinks the rows' curvature along it by a factor of e.
SHRINKING = 0.7
#: If a column's mean is m times its spread, a share of 1 / m**2 of its curvature is left next to an
#: intercept: it is named from m = 10 on.
CANCELLED = 0.01
#: Share of a Newton step's predicted gain along a line that explains why the search goes on.
MOST = 0.5


def why_not_found(
    objective: Objective,
    theta: np.ndarray,
    proposal: np.ndarray,
    expansion: JointExpansion,
    previous: JointExpansion | None,
) -> str:
    """Return sentences on why Newton steps to a `proposal` have not ended, and what to do."""
    why = why_scale_collapsed(objective.posterior, theta)
    if why is not None:
        return why[0].upper() + why[1:]
    if previous is not None and _is_separated(objective, theta, proposal, expansion, previous):
        return (
            "The rows' curvature vanishes on the way: where the predictors separate the outcomes, "
            "the likelihood alone does not pin the coefficients down. Give them a proper prior"
        )
    line = _collinear(objective, theta, expansion)
    if line is not None:
        return (
            f"There {line}, as of a column whose values are far from zero beside their spread. "
            "Centre such columns, as a date: subtract the mean and divide by the standard deviation"
        )
    gain = objective.value(proposal) - objective.value(theta)
    return (
        f"One more step was to raise the log density by {gain:.3g}. Standardise columns, give "
        "parameters priors that keep them near values that are plausible, or give FireflyMH an "
        "anchor="
    )


def _is_separated(
    objective: Objective,
    theta: np.ndarray,
    proposal: np.ndarray,
    expansion: JointExpansion,
    previous: JointExpansion,
) -> bool:
    """Return whether the last step took curvature from the rows along the next, with a gain."""
    along, step = objective.posterior.curvature_along, proposal - theta
    before, now = along(theta, previous, step), along(theta, expansion, step)
    return now < SHRINKING * before and expansion.value > previous.value


def _collinear(objective: Objective, theta: np.ndarray, expansion: JointExpansion) -> str | None:
    """Return which columns are nearly multiples of each other, if the search is stuck there."""
    gradient = objective(theta)[1]
    lines = Lines.of(objective, theta, objective.precision_blocks(theta), np.inf)
    if not np.all(lines.values > 0.0):
        return None
    gains = (lines.directions @ gradient) ** 2 / lines.values
    i = int(np.argmax(gains))
    form, size = lines.terms(expansion)
    if gains[i] < MOST * np.sum(gains) or abs(form[i]) > CANCELLED * size[i]:
        return None
    return lines.described(i)
