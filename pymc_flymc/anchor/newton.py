"""Damped Newton steps to a mode: each takes one pass over the data to expand the likelihoods."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.log_posterior import LogPosterior
from pymc_flymc.anchor.maximum import NEAR, TOLERANCE, maximise
from pymc_flymc.anchor.not_found import why_not_found
from pymc_flymc.anchor.objective import Objective
from pymc_flymc.order import first_largest
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.regression import Regression

MAX_STEPS = 100
#: A Newton step that does not raise the density is shortened to a part of its length between these
#: two. Where less than the third is left, the next step is damped.
SHORTEST, LONGEST, SHORT = 0.05, 0.5, 0.25
#: Damping of steps, in units of the rows' curvature at the start of the search: its first value,
#: the factor by which it is changed, the least value that counts, and the largest. Beyond that no
#: step raises the density because of rounding, and the search is over.
FIRST_DAMPING, RAISE, LEAST_DAMPING, LARGEST_DAMPING = 1e-2, 4.0, 1e-5, 1e9
#: Damping is lowered after a step that gains more than the first share of the predicted gain, and
#: raised after one that gains less than the second.
GOOD, BAD = 0.75, 0.1
#: The search ends, too, after so many steps in a row that gain less than this share of what an
#: undamped one would, if that is less than one: so it is where effects are integrated out, and
#: their precision changes with the curvature of rows, of which a step knows nothing.
MAX_STALLS, STALLED, CLOSE = 3, 0.1, 1.0
#: How often the joint density takes the place of that with effects integrated out before it stays:
#: the two in turns may have two maxima, and a search would go to and fro.
MAX_JOINT = 3


@dataclass(frozen=True)
class ModeResult:
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
    def predicted_gain(self) -> float:
        """Gain in log density of one more Newton step, as predicted."""
        return 0.5 * self.objective.newton_decrement(self.theta) ** 2


def share_of(regressions: Sequence[Regression], strides: Sequence[int]) -> float:
    """Return the share of all rows that every so-many-th of each regression make."""
    n_rows = np.array([each.design.n_rows for each in regressions])
    return float(np.sum(n_rows / strides) / np.sum(n_rows))


def find_mode(
    posterior: LogPosterior,
    theta: np.ndarray,
    start: np.ndarray,
    strides: Sequence[int],
    tolerance: float,
    passes: float,
) -> ModeResult:
    """Find the mode of the density with every so-many-th row of each regression, from theta.

    Each step expands the log-likelihoods in w to second order (one pass), and maximises this
    quadratic plus the exact rest of the model over theta (no pass). The last one would gain less
    than the tolerance, and leads to the result's centre.

    Rows that are predicted badly, and with certainty, have a slope but no curvature. A Newton step
    then goes much too far, and a shortened one hardly moves in directions that other rows know. Far
    from the mode rows of classes get the curvature with which they promise no more than there is.
    Where a step fails all the same, the rows' curvature at the start is added as damping (Levenberg
    and Marquardt).

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
    share = share_of(posterior.regressions, strides)
    expansion, previous = posterior.expand(theta, strides), None
    passes += share
    at_theta = posterior.value(theta, expansion)
    if not np.isfinite(at_theta):
        raise ValueError(
            f"the log density of the model with likelihood {posterior.names} is {at_theta} at the "
            "start of the search for its mode; give FireflyMH an anchor=, or the variables other "
            "initial values"
        )
    near = not len(posterior.effects.integrated_out)
    concave = expansion.concave()
    # The rows' curvature at the start takes another pass if this stage does not begin there.
    damping, at_start = 0.0, concave if theta is start else None
    stalls = joint = 0
    own = Objective(posterior, concave.pack(), near)
    for _ in range(MAX_STEPS):
        proposal, objective = maximise(own, theta)
        joint += objective.posterior is not posterior
        if joint == MAX_JOINT:
            posterior, near, own = objective.posterior, True, objective
        value = objective.value(theta)
        predicted = objective.value(proposal) - value
        if not near and predicted < NEAR:
            near, own = True, own.from_near()
            continue
        if predicted < tolerance or stalls == MAX_STALLS:
            centre = proposal if TOLERANCE < tolerance and predicted > 0.0 else theta
            return ModeResult(theta, centre, objective, expansion, previous, passes)
        usable = concave
        if predicted > NEAR and concave.lacks_curvature:
            usable = concave.cautious()
            proposal, _ = maximise(own.with_statistics(usable.pack()), theta)
        step, failures = 1.0, 0
        while True:
            if damping > 0.0:
                if at_start is None:
                    at_start = posterior.expand(start, strides).concave()
                    passes += share
                damped = usable.damped(damping, at_start)
                candidate, _ = maximise(own.with_statistics(damped.pack()), theta)
            else:
                candidate = theta + step * (proposal - theta)
            new_expansion = posterior.expand(candidate, strides)
            # Concave as at theta: else precisions of effects may be next to nothing.
            new_concave = new_expansion.concave()
            there = objective.with_statistics(new_concave.pack())
            new_value, _ = there(candidate)
            passes += share
            if new_value > value:
                break
            if damping == 0.0 and step == 1.0:
                # To the maximum of the parabola through both values and the slope, within limits.
                slope = objective(theta)[1] @ (proposal - theta)
                shortfall = slope - (new_value - value) if np.isfinite(new_value) else np.inf
                step = float(np.clip(0.5 * slope / shortfall, SHORTEST, LONGEST))
                continue
            failures += 1
            damping = 2.0 ** (failures - 1) * RAISE * damping if damping > 0.0 else FIRST_DAMPING
            if damping > LARGEST_DAMPING:
                return ModeResult(theta, theta, objective, expansion, previous, passes)
        gained, expected = new_value - value, objective.value(candidate) - value
        stalls = stalls + 1 if gained < STALLED * predicted < STALLED * CLOSE else 0
        if damping == 0.0:
            damping = FIRST_DAMPING if step < SHORT else 0.0
        elif gained > GOOD * expected:
            damping = damping / RAISE if damping > LEAST_DAMPING else 0.0
        elif gained < BAD * expected:
            damping *= RAISE
        theta, previous, expansion, concave = candidate, expansion, new_expansion, new_concave
        # What has been found of the one is found of the other, if it is the same density.
        same = objective.posterior is posterior
        own = there if same else own.with_statistics(concave.pack())
    runaway = first_largest(np.abs(theta))
    further, last = maximise(own, theta)
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {posterior.names}: "
        f"{posterior.layout.describe(runaway)} has reached {theta[runaway]:.3g}. "
        f"{why_not_found(last, theta, further, expansion, previous)}"
    )
