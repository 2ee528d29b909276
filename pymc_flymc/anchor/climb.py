"""Newton steps to a mode, each of a pass over the data, shortened or damped until they rise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.landscape import Landscape
from pymc_flymc.anchor.objective import Objective
from pymc_flymc.anchor.trust_region import NEAR
from pymc_flymc.regression.regression import JointExpansion

__all__ = ["TOLERANCE", "Summit", "climb"]

#: The search ends when one more step would gain less than this in log density: then the anchor is
#: within sqrt(2 * 1e-3) of a posterior standard deviation of the mode.
TOLERANCE = 1e-3
MAX_STEPS = 100
#: The part of its length to which a Newton step that does not rise is shortened, and that below
#: which the next one is damped.
SHORTEST, LONGEST, SHORT = 0.05, 0.5, 0.25
#: Damping of steps, in units of the rows' curvature at the start of the search: where it begins, by
#: what it is raised until a step rises, below what there is none, and above what rounding is why
#: nothing rises.
FIRST, RAISE, LEAST, LARGEST = 1e-2, 4.0, 1e-5, 1e9
#: It is lowered after a step that gains more than this share of what it promised, and raised after
#: one that gains less than that.
GOOD, BAD = 0.75, 0.1


@dataclass(frozen=True)
class Summit:
    """Where Newton steps have ended.

    Attributes
    ----------
    theta, centre : ndarray, shape (D,)
        Where the rows were expanded last, and a last step on from there, which takes no pass.
    objective : Objective
        What the last step maximised.
    expansion, previous : JointExpansion
        The log-likelihoods around theta, and around the last point but one, if there is one.
    passes : float
        Passes over the data that the search has taken so far.
    """

    theta: np.ndarray
    centre: np.ndarray
    objective: Objective
    expansion: JointExpansion
    previous: JointExpansion | None
    passes: float

    @property
    def promise(self) -> float:
        """Gain that one more Newton step promises."""
        return 0.5 * self.objective.newton_decrement(self.theta) ** 2


def climb(
    landscape: Landscape,
    theta: np.ndarray,
    start: np.ndarray,
    strides: Sequence[int],
    tolerance: float,
    passes: float,
) -> Summit:
    """Climb from theta to the mode of the density with every so-many-th row of each regression.

    Each step expands the log-likelihoods in w to second order (one pass), and maximises this
    quadratic plus the exact rest of the model over theta (no pass). The last one would gain less
    than the tolerance, and leads to the summit's centre.

    From where rows are predicted badly, and with certainty, they pull without any curvature: a
    Newton step leads far beyond where they pull, most of all in the directions in which nothing
    else holds it back, and shortened it hardly moves in any other. There the rows' curvature at the
    start, where they were not certain of anything, keeps all of them within its reach (as the
    damping of Levenberg and Marquardt does).

    Parameters
    ----------
    theta, start : ndarray, shape (D,)
        Where to begin, and where the search as a whole began: the same object in its first stage.
    strides : sequence of int
        For each regression: its rows are those with numbers 0, stride, 2 stride and so on.
    tolerance : float
        In units of the log density.
    passes : float
        Over all rows, taken so far.

    Raises
    ------
    ValueError
        If the log density is not finite at theta, or if no mode is found. What the model's own
        graph raises at theta is raised as it is.
    """
    n_rows = np.array([each.design.n_rows for each in landscape.regressions])
    share = float(np.sum(n_rows / strides) / np.sum(n_rows))
    expansion, previous = landscape.expand(theta, strides), None
    passes += share
    height = landscape.height(theta, expansion)
    if not np.isfinite(height):
        raise ValueError(
            f"the log density of the model with likelihood {landscape.names} is {height} at the "
            "start of the anchor search; give FireflyMH an anchor=, or the variables other initial "
            "values"
        )
    near = not len(landscape.effects.integrated_out)
    # Where the search does not begin here, that takes a pass, if it is needed.
    damping, at_start = 0.0, expansion.concave() if theta is start else None
    for _ in range(MAX_STEPS):
        concave = expansion.concave()
        proposal, objective = landscape.maximise(landscape.objective(concave, near), theta)
        value, gradient = objective(theta)
        predicted = objective(proposal)[0] - value
        if not near and predicted < NEAR:
            near = True
            continue
        if predicted < tolerance:
            centre = proposal if TOLERANCE < tolerance and predicted > 0.0 else theta
            return Summit(theta, centre, objective, expansion, previous, passes)
        step, failures = 1.0, 0
        while True:
            if damping > 0.0:
                if at_start is None:
                    at_start = landscape.expand(start, strides).concave()
                    passes += share
                damped = landscape.objective(concave.damped(damping, at_start), near)
                candidate, _ = landscape.maximise(damped, theta)
            else:
                candidate = theta + step * (proposal - theta)
            new_expansion = landscape.expand(candidate, strides)
            new_value = objective.with_statistics(new_expansion.pack())(candidate)[0]
            passes += share
            if new_value > value:
                break
            if damping == 0.0 and step == 1.0:
                # To the top of the parabola through what is known, within limits.
                slope = gradient @ (proposal - theta)
                shortfall = slope - (new_value - value) if np.isfinite(new_value) else np.inf
                step = float(np.clip(0.5 * slope / shortfall, SHORTEST, LONGEST))
                continue
            failures += 1
            damping = 2.0 ** (failures - 1) * RAISE * damping if damping > 0.0 else FIRST
            if damping > LARGEST:
                return Summit(theta, theta, objective, expansion, previous, passes)
        gained, promised = new_value - value, objective(candidate)[0] - value
        if damping == 0.0:
            damping = FIRST if step < SHORT else 0.0
        elif gained > GOOD * promised:
            damping = damping / RAISE if damping > LEAST else 0.0
        elif gained < BAD * promised:
            damping *= RAISE
        theta, expansion, previous = candidate, new_expansion, expansion
    runaway = int(np.argmax(np.abs(theta)))
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {landscape.names}: "
        f"{landscape.layout.describe(runaway)} has reached {theta[runaway]:.3g}. If the predictors "
        "separate the outcomes, the likelihood alone does not pin the coefficients down: give them "
        "a proper prior, or give FireflyMH an anchor="
    )
