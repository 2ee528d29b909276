"""Refuse to sample by collapsed sums that are rounding errors within the posterior.

When the mode is found, `check_digits` looks at the curvature of the likelihoods. That of a bound
may be hundreds of times as large: rows that are predicted with certainty, as where events are rare,
have hardly any curvature themselves. Then terms cancel to fewer digits, and no chain shows it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from pymc_flymc.anchor.lost_digits import EPSILON, LARGEST_ERROR
from pymc_flymc.bounds import Problem
from pymc_flymc.regression.regression import names_of
from pymc_flymc.target.target import Target

#: Points at which the sums are evaluated, drawn from the Laplace approximation, and how often with
#: rounding errors.
POINTS = DRAWS = 8
#: No chain comes to draws whose log density is lower than that of the approximation by more than
#: this, each relative to the mode.
UNREACHED = 10.0
#: Of the points and of the rounding errors: the same model is always refused, or never.
SEED = 20261127
#: Floats beyond are whole whatever they stand for.
LARGEST_WHOLE = 2.0 / EPSILON


def check_rounded_sums(
    target: Target,
    problems: Sequence[Problem],
    others: np.ndarray,
    log_density: Callable[[np.ndarray], float],
) -> None:
    """Refuse a target whose log density changes too much with rounding errors of its statistics.

    It must not within a posterior standard deviation. `log_density` is that of the posterior in
    standardised coordinates: it reads all rows, and is seldom called.
    """
    points = np.random.default_rng(SEED).standard_normal((POINTS, len(target.geometry.centre)))
    if rounding_within_sd(target, others, points) <= LARGEST_ERROR:
        return
    # A funnel's approximation has draws far out of the posterior: no digits are needed there.
    reached = _log_weights(log_density, points) > -UNREACHED
    if rounding_within_sd(target, others, points[reached]) > LARGEST_ERROR:
        bounds = " and ".join(dict.fromkeys(part.bound.name for part in target.parts))
        raise ValueError(
            f"sums over the rows of {names_of(problems)} under the {bounds} bound are rounding "
            "errors along a line on which the posterior is wide, as where columns are far from "
            "zero beside their spread, such as dates, and events are rare. Centre such columns: "
            "subtract the mean and divide by the standard deviation. Or take bound=None, which "
            "reads all rows"
        )


def _log_weights(log_density: Callable[[np.ndarray], float], points: np.ndarray) -> np.ndarray:
    """Log densities relative to the approximation's, both relative to the mode, shape (n,)."""
    at_mode, found = log_density(np.zeros(points.shape[1])), np.full(len(points), -np.inf)
    for i, v in enumerate(points):
        with suppress(Exception):  # of a user's own type: no draw needs such a point
            found[i] = log_density(v) - at_mode + 0.5 * v @ v
    return found


def rounding_within_sd(target: Target, others: np.ndarray, points: np.ndarray) -> float:
    """Estimate the rounding error of the log density of collapsed sums one posterior sd away.

    `points` are draws of the approximation in standardised coordinates.
    """
    rng, w = np.random.default_rng(SEED), np.empty(target.n_slopes)
    thetas = [target.geometry.unstandardise(v) for v in (np.zeros(points.shape[1]), *points)]

    def changes(statistics: np.ndarray) -> np.ndarray:
        """Return how the log density differs from that at the centre."""
        both, values = np.concatenate([statistics, others]), np.full(len(thetas), np.nan)
        for i, theta in enumerate(thetas):
            with suppress(Exception):  # of a user's own type: no draw needs such a point
                values[i] = target.density(theta, both, w)
        values[np.isinf(values)] = np.nan  # beyond a limit of the prior
        return values[1:] - values[0]

    as_built = changes(target.statistics)
    errors = [changes(_rounded(target.statistics, rng)) - as_built for _ in range(DRAWS)]
    found = np.ravel(errors)
    found = found[~np.isnan(found)]
    size = np.abs(found).max(initial=0.0)  # whose square may overflow
    # Along a line the error grows with the square of the distance, whose mean square is three.
    return float(size * np.sqrt(np.mean((found / size) ** 2) / 3.0)) if size else 0.0


def _rounded(statistics: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return statistics with random errors; sizes that are among them are whole, and exact."""
    exact = (np.trunc(statistics) == statistics) & (np.abs(statistics) < LARGEST_WHOLE)
    errors = rng.choice([-EPSILON, EPSILON], len(statistics))
    return np.where(exact, statistics, statistics * (1.0 + errors))
