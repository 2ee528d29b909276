"""Damped Newton steps to a mode, each with one pass over the data to expand the likelihoods."""

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
#: A Newton step that does not raise the density is shortened to a part of its length between the
#: first two. If less than the third is left, the next step is damped.
SHORTEST, LONGEST, SHORT = 0.05, 0.5, 0.25
#: Damping of steps, in units of the rows' curvature at the start of the search: its first value,
#: the factor by which it is changed, the least value that counts, and the largest. Beyond that no
#: step raises the density because of rounding, and the search is over.
FIRST_DAMPING, RAISE, LEAST_DAMPING, LARGEST_DAMPING = 1e-2, 4.0, 1e-5, 1e9
#: Damping is lowered after a step that gains more than the first share of the predicted gain, and
#: raised after one that gains less than the second.
GOOD, BAD = 0.75, 0.1
#: The search ends, too, after `MAX_STALLS` steps in a row that gain less than the share `STALLED`
#: of the predicted gain of an undamped step, if that gain is less than `CLOSE`: this happens if
#: effects are integrated out, and a step ignores that their precision changes.
MAX_STALLS, STALLED, CLOSE = 3, 0.1, 1.0
#: Number of times that the joint density may replace the one with effects integrated out before it
#: stays: the two in turns may have two maxima, between which a search would alternate.
MAX_JOINT = 3


@dataclass(frozen=True)
class ModeResult:
    """Where Newton steps have ended."""

    theta: np.ndarray  #: Where the rows were expanded last.
    centre: np.ndarray  #: The end of a last step from theta, which takes no pass.
    objective: Objective  #: What the last step maximised.
    expansion: JointExpansion  #: The log-likelihoods around theta.
    #: The log-likelihoods around the last point but one, if there is one.
    previous: JointExpansion | None
    passes: float  #: Number of passes over the data so far.

    @property
    def predicted_gain(self) -> float:
        """Return the predicted gain in log density of one more Newton step."""
        return 0.5 * self.objective.newton_decrement(self.theta) ** 2


def share_of(regressions: Sequence[Regression], strides: Sequence[int]) -> float:
    """Return the share of all rows in every `stride`-th row of each regression."""
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
    """Find the mode of the density with every `stride`-th row of each regression, from theta.

    Each step expands the log-likelihoods in w to second order (one pass), and maximises this
    quadratic plus the exact rest of the model over theta (no pass). The last one would gain less
    than the tolerance, and leads to the result's centre.

    Rows that are predicted badly, and with certainty, have a slope but no curvature. A Newton step
    then goes much too far, and a shortened one moves little in directions that other rows inform.
    Far from the mode rows of classes get the curvature with which their quadratics do not exceed
    what the log-likelihood can reach. If a step still fails, the rows' curvature at the start is
    added as damping (Levenberg and Marquardt).

    `start` is where the search as a whole began, the same object as theta in its first stage;
    `passes` counts passes over all rows so far. A theta without a finite log density, and a search
    that ends without a mode, are refused; the model's own errors at theta are raised.
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
            # Concave as at theta: otherwise precisions of effects may be close to zero.
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
        # For the same density, results of the one objective are valid for the other.
        same = objective.posterior is posterior
        own = there if same else own.with_statistics(concave.pack())
    runaway = first_largest(np.abs(theta))
    further, last = maximise(own, theta)
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {posterior.names}: "
        f"{posterior.layout.describe(runaway)} has reached {theta[runaway]:.3g}. "
        f"{why_not_found(last, theta, further, expansion, previous)}"
    )
