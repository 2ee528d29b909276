"""The maximum of an objective, by Newton steps without passes over the data."""

from typing import Any

import numpy as np
from scipy.sparse import diags_array

from pymc_flymc.anchor.objective import Objective
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.order import first_largest

#: The search ends when one more step would gain less than this in log density: then the anchor is
#: within sqrt(2 * 1e-3) of a posterior standard deviation of the mode.
TOLERANCE = 1e-3
#: Once a step would gain less, the search uses the full curvature of the objective.
NEAR = 10.0
#: The search for a maximum ends when one more step would gain less than this, as predicted.
LEAST_GAIN = 0.1 * TOLERANCE
#: It ends after `MAX_SHORT` steps in a row that gained less than `TOLERANCE`, or less than
#: `LEAST_FROM_AFAR` while the curvature is the one that is safe from afar: such steps are short,
#: and are not the last ones. With products of the Hessian, which take long, it ends then only if
#: the predicted gain is no larger, either.
MAX_SHORT, LEAST_FROM_AFAR = 3, 0.01 * NEAR
#: It ends if this many points in a row are no higher: if effects are integrated out, gradient and
#: value do not quite belong to one function.
MAX_TRIALS = 12
#: Units of parameters differ widely if the ratio of their squares, which the condition number of
#: the precision exceeds, is beyond this: then rounding hides the smallest curvatures from a search
#: in the original parameters.
WIDE_UNITS = 1.0 / float(np.finfo(np.float64).eps)


def maximise(objective: Objective, theta: np.ndarray) -> tuple[np.ndarray, Objective]:
    """Return the maximum of an objective from theta, and the objective, without a data pass."""
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
    """Return the end of trust-region Newton steps by the whole Hessian; None if each step fails."""
    found, is_small = _from_start(objective, theta)
    last = theta if found is None else found
    precision, gradient = -objective.hessian(last), objective(last)[1]
    units = conditional_sds(precision)
    whole = _standardised(precision, units)
    # In other coordinates the search ends, or makes short steps, far from the mode of columns that
    # are nearly multiples of each other, such as an intercept's and dates in seconds.
    if whole is not None and 0.5 * np.sum((whole.T @ gradient) ** 2) > TOLERANCE:
        further, _ = _in_units(objective, last, whole)
        return found if further is None else further
    if found is None or not is_small:
        return found
    # A gradient is small at any point if the units of a parameter are small enough.
    if np.max(np.abs(gradient) * units) > np.sqrt(2.0 * TOLERANCE):
        further, _ = _in_units(objective, found, diags_array(units))
        found = found if further is None else further
    return found


def _from_start(objective: Objective, theta: np.ndarray) -> tuple[np.ndarray | None, bool]:
    """Return `_in_units` in the original parameters, or standardised if units differ widely."""
    # They do for a column of seconds since 1970, of nanoseconds, or of parts in a billion.
    precision = -objective.hessian(theta)
    units = conditional_sds(precision)
    if np.max(units) ** 2 > WIDE_UNITS * np.min(units) ** 2:
        whole = _standardised(precision, units)
        if whole is not None:
            found, is_small = _in_units(objective, theta, whole)
            if found is not None:
                return found, is_small
    return _in_units(objective, theta, diags_array(np.ones(len(theta))))


def conditional_sds(precision: np.ndarray) -> np.ndarray:
    """Return standard deviations given all else, (D,); 1, or only scales, without curvature."""
    curvature = np.abs(np.diagonal(precision))
    return np.asarray(1.0 / np.sqrt(np.where(curvature > 0.0, curvature, 1.0)))


def _standardised(precision: np.ndarray, units: np.ndarray) -> np.ndarray | None:
    """Return coordinates in which the precision is the identity, or None if they do not exist."""
    scaled = precision * units * units[:, None]
    if not np.all(np.isfinite(scaled)):
        return None
    try:
        root = np.linalg.cholesky(scaled)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(units[:, None] * np.linalg.inv(root).T)


def _in_units(
    objective: Objective, theta: np.ndarray, units: Any
) -> tuple[np.ndarray | None, bool]:
    """Return `_by_matrices` in units (D, D), maybe sparse, and whether the gradient is small."""
    # Slow to import: not before there is a model.
    from scipy.optimize import OptimizeResult, minimize

    best, most, slope, trials, short, found = theta, -np.inf, theta, 0, 0, False
    least = TOLERANCE if objective.near else LEAST_FROM_AFAR

    def negative(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, most, slope, trials, short
        t = theta + units @ u
        value, gradient = objective(t)
        if not np.isfinite(value):  # refused, if SciPy's linear algebra sees finite numbers only
            return np.inf, np.zeros_like(u)
        trials += 1
        if value > most:
            short = short + 1 if value < most + least else 0
            best, most, slope, trials = t, value, units.T @ gradient, 0
        return -value, -(units.T @ gradient)

    def end(intermediate_result: OptimizeResult) -> None:
        if found or trials >= MAX_TRIALS or short >= MAX_SHORT:
            raise StopIteration

    def curvature(u: np.ndarray) -> np.ndarray:
        nonlocal found
        t = theta + units @ u
        matrix = -(units.T @ objective.hessian(t) @ units)
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
        # SciPy raises this if its search for a step's damping fails: curvatures are too large for
        # it where a density grows without limit, as towards a singular covariance.
        posterior = objective.posterior
        i = first_largest(np.abs(np.nan_to_num(objective(best)[1])))
        raise UnsupportedModelError(
            f"no posterior mode found: the log density of the model with likelihood "
            f"{posterior.names} grows without limit as {posterior.layout.describe(i)} comes near "
            f"{best[i]:.6g} (unconstrained), as at a covariance that is singular. A prior "
            "that keeps away from there would give it a mode"
        ) from None
    is_small = bool(result.success) or found or (short >= MAX_SHORT and objective.near)
    stuck = not (result.success or found) and not result.x.any()
    return None if stuck else theta + units @ result.x, is_small


def _predicted_gain(precision: np.ndarray, gradient: np.ndarray) -> float:
    """Return the predicted gain of a Newton step; infinite away from a maximum."""
    try:
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return np.inf
    return 0.5 * float(np.sum(np.linalg.solve(factor, gradient) ** 2))


def _by_products(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    """Return the end of trust-region Newton steps by Hessian products; None if each step fails."""
    from scipy.optimize import OptimizeResult, minimize

    geometry = objective.geometry(theta)
    most, predicted, short = -np.inf, np.inf, 0
    least = TOLERANCE if objective.near else LEAST_FROM_AFAR

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal most, predicted, short
        value, gradient = objective(geometry.unstandardise(v))
        slope = geometry.standardise_gradient(gradient)
        short = 0 if value >= most + least else short + 1
        if value > most:
            most, predicted = value, 0.5 * float(slope @ slope)
        return -value, -slope

    def end(intermediate_result: OptimizeResult) -> None:
        # If effects are integrated out, the gradient is right on average only. It vanishes close to
        # the maximum, but not at it, and steps from there to where it vanishes are refused, one
        # after the other, each for a shorter one.
        if short >= MAX_SHORT and predicted < LEAST_FROM_AFAR:
            raise StopIteration

    def hessian_times(v: np.ndarray, p: np.ndarray) -> np.ndarray:
        product = objective.hessian_times(geometry.unstandardise(v), geometry.spread(p))
        # A step beyond the range of doubles is tried, and refused for its value.
        return -geometry.standardise_gradient(product) if np.all(np.isfinite(product)) else p

    trust_radius = np.sqrt(len(theta))
    result = minimize(
        negative,
        np.zeros(len(theta)),
        jac=True,
        hessp=hessian_times,
        method="trust-ncg",
        callback=end,
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
    return geometry.unstandardise(np.asarray(result.x))
