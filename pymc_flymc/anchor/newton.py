"""Damped Newton steps to a mode: each takes one pass over the data to expand the likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.log_posterior import LogPosterior
from pymc_flymc.anchor.objective import Objective
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.regression.expansion import JointExpansion

#: The search ends when one more step would gain less than this in log density: then the anchor is
#: within sqrt(2 * 1e-3) of a posterior standard deviation of the mode.
TOLERANCE = 1e-3
#: Once a step would gain less, the search uses the full curvature of the objective.
NEAR = 10.0
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
#: The search for a maximum ends where one more step would gain less than this, as predicted, or
#: after so many steps in a row that did. While the curvature is the one that is safe from afar,
#: steps are too short, and the second is all that there may be to gain.
LEAST_GAIN, MAX_SHORT, LEAST_FROM_AFAR = 0.1 * TOLERANCE, 3, 0.01 * NEAR
#: It ends, too, if so many points in a row are no higher: where effects are integrated out,
#: gradient and value are not quite those of one function.
MAX_TRIALS = 12


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
    then goes much too far, and a shortened one hardly moves in directions that other rows know. In
    that case the rows' curvature at the start is added as damping (Levenberg and Marquardt).

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
    n_rows = np.array([each.design.n_rows for each in posterior.regressions])
    share = float(np.sum(n_rows / strides) / np.sum(n_rows))
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
    for _ in range(MAX_STEPS):
        proposal, objective = maximise(Objective(posterior, concave.pack(), near), theta)
        joint += objective.posterior is not posterior
        if joint == MAX_JOINT:
            posterior, near = objective.posterior, True
        value, gradient = objective(theta)
        predicted = objective(proposal)[0] - value
        if not near and predicted < NEAR:
            near = True
            continue
        if predicted < tolerance or stalls == MAX_STALLS:
            centre = proposal if TOLERANCE < tolerance and predicted > 0.0 else theta
            return ModeResult(theta, centre, objective, expansion, previous, passes)
        step, failures = 1.0, 0
        while True:
            if damping > 0.0:
                if at_start is None:
                    at_start = posterior.expand(start, strides).concave()
                    passes += share
                damped = concave.damped(damping, at_start)
                candidate, _ = maximise(Objective(posterior, damped.pack(), near), theta)
            else:
                candidate = theta + step * (proposal - theta)
            new_expansion = posterior.expand(candidate, strides)
            # Concave as at theta: else precisions of effects may be next to nothing.
            new_concave = new_expansion.concave()
            new_value, _ = objective.with_statistics(new_concave.pack())(candidate)
            passes += share
            if new_value > value:
                break
            if damping == 0.0 and step == 1.0:
                # To the maximum of the parabola through both values and the slope, within limits.
                slope = gradient @ (proposal - theta)
                shortfall = slope - (new_value - value) if np.isfinite(new_value) else np.inf
                step = float(np.clip(0.5 * slope / shortfall, SHORTEST, LONGEST))
                continue
            failures += 1
            damping = 2.0 ** (failures - 1) * RAISE * damping if damping > 0.0 else FIRST_DAMPING
            if damping > LARGEST_DAMPING:
                return ModeResult(theta, theta, objective, expansion, previous, passes)
        gained, expected = new_value - value, objective(candidate)[0] - value
        stalls = stalls + 1 if gained < STALLED * predicted < STALLED * CLOSE else 0
        if damping == 0.0:
            damping = FIRST_DAMPING if step < SHORT else 0.0
        elif gained > GOOD * expected:
            damping = damping / RAISE if damping > LEAST_DAMPING else 0.0
        elif gained < BAD * expected:
            damping *= RAISE
        theta, previous, expansion, concave = candidate, expansion, new_expansion, new_concave
    runaway = int(np.argmax(np.abs(theta)))
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {posterior.names}: "
        f"{posterior.layout.describe(runaway)} has reached {theta[runaway]:.3g}. If the predictors "
        "separate the outcomes, the likelihood alone does not pin the coefficients down: give them "
        "a proper prior, or give FireflyMH an anchor="
    )


def maximise(objective: Objective, theta: np.ndarray) -> tuple[np.ndarray, Objective]:
    """Maximise an objective from theta, and return what was maximised; no pass over the data.

    Raises
    ------
    UnsupportedModelError
        If it grows without limit, as far as can be seen; the message names a parameter.
    """
    effects = objective.posterior.effects
    # With diagonal elements a matrix of all parameters is too large: use conjugate gradients.
    found = (
        _by_products(objective, theta) if len(effects.diagonal) else _by_matrices(objective, theta)
    )
    if found is not None:
        return found, objective
    if len(effects.integrated_out) and 0.5 * objective.newton_decrement(theta) ** 2 > NEAR:
        # Effects that are not normal given the rest, as of a horseshoe: use the joint density.
        return maximise(objective.joint(), theta)
    return theta, objective


def _by_matrices(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    """Newton steps within a trust region, by the whole Hessian; None if each step fails."""
    found, is_small = _in_units(objective, theta, np.ones(len(theta)))
    if found is None or not is_small:
        return found
    # A gradient is small at any place where the units of a parameter are small enough.
    curvature = np.abs(np.diagonal(objective.hessian(found)))
    units = 1.0 / np.sqrt(np.where(curvature > 0.0, curvature, 1.0))
    if np.max(np.abs(objective(found)[1]) * units) > np.sqrt(2.0 * TOLERANCE):
        further, _ = _in_units(objective, found, units)
        found = found if further is None else further
    return found


def _in_units(
    objective: Objective, theta: np.ndarray, units: np.ndarray
) -> tuple[np.ndarray | None, bool]:
    """As `_by_matrices`, of parameters in these units; and whether their gradient is small."""
    # Slow to import: not before there is a model.
    from scipy.optimize import OptimizeResult, minimize

    best, most, slope, trials, short, found = theta, -np.inf, theta, 0, 0, False
    least = TOLERANCE if objective.near else LEAST_FROM_AFAR

    def negative(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, most, slope, trials, short
        t = theta + units * u
        value, gradient = objective(t)
        if not np.isfinite(value):  # refused, if SciPy's linear algebra sees finite numbers only
            return np.inf, np.zeros_like(u)
        trials += 1
        if value > most:
            short = short + 1 if value < most + least else 0
            best, most, slope, trials = t, value, gradient * units, 0
        return -value, -gradient * units

    def end(intermediate_result: OptimizeResult) -> None:
        if found or trials >= MAX_TRIALS or short >= MAX_SHORT:
            raise StopIteration

    def curvature(u: np.ndarray) -> np.ndarray:
        nonlocal found
        t = theta + units * u
        matrix = -objective.hessian(t) * units * units[:, None]
        if not np.all(np.isfinite(matrix)):
            return np.eye(len(u))
        found = np.array_equal(t, best) and _predicted_gain(matrix, slope) < LEAST_GAIN
        return matrix

    try:
        result = minimize(
            negative,
            np.zeros(len(theta)),
            jac=True,
            hess=curvature,
            method="trust-exact",
            callback=end,
            options={"initial_trust_radius": 10.0, "max_trust_radius": 1e4, "maxiter": 50},
        )
    except UnboundLocalError:
        # SciPy raises this where its search for a step's damping fails: curvatures are too large
        # for it where a density grows without limit, as towards a singular covariance.
        posterior = objective.posterior
        i = int(np.argmax(np.abs(np.nan_to_num(objective(best)[1]))))
        raise UnsupportedModelError(
            f"no posterior mode found: the log density of the model with likelihood "
            f"{posterior.names} grows without limit as {posterior.layout.describe(i)} comes near "
            f"{best[i]:.6g} (unconstrained), as at a covariance that is singular. A prior "
            "that keeps away from there would give it a mode"
        ) from None
    stuck = not result.success and not result.x.any()
    is_small = bool(result.success) or found or (short >= MAX_SHORT and objective.near)
    return None if stuck else theta + units * result.x, is_small


def _predicted_gain(precision: np.ndarray, gradient: np.ndarray) -> float:
    """Return what a Newton step gains, as predicted; infinite away from a maximum."""
    try:
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return np.inf
    return 0.5 * float(np.sum(np.linalg.solve(factor, gradient) ** 2))


def _by_products(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    """Newton steps within a trust region, by products of the Hessian; None if each step fails."""
    from scipy.optimize import minimize

    geometry = objective.geometry(theta)

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(geometry.unwhiten(v))
        return -value, -geometry.whiten_gradient(gradient)

    def hessian_times(v: np.ndarray, p: np.ndarray) -> np.ndarray:
        product = objective.hessian_times(geometry.unwhiten(v), geometry.spread(p))
        # A step beyond what doubles can hold is tried, and refused for its value.
        return -geometry.whiten_gradient(product) if np.all(np.isfinite(product)) else p

    trust_radius = np.sqrt(len(theta))
    result = minimize(
        negative,
        np.zeros(len(theta)),
        jac=True,
        hessp=hessian_times,
        method="trust-ncg",
        # Half its square is the gain that a gradient in these coordinates predicts.
        options={
            "initial_trust_radius": trust_radius,
            "max_trust_radius": 1e3 * trust_radius,
            "gtol": 0.02,
            "maxiter": 20,
        },
    )
    if not result.success and not result.x.any():
        return None
    return geometry.unwhiten(np.asarray(result.x))
