"""Maxima of smooth functions of the parameters."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from pymc_flymc.anchor.objective import Objective

__all__ = ["NEAR", "WithoutLimitError", "maximise"]

#: Once a step would gain less, the search takes account of all that the objective's curvature has.
NEAR = 10.0


class WithoutLimitError(Exception):
    """An objective grows without limit, as far as can be seen.

    Attributes
    ----------
    theta : ndarray, shape (D,)
        The highest point that was seen.
    """

    def __init__(self, theta: np.ndarray) -> None:
        super().__init__(theta)
        self.theta = theta


def maximise(objective: Objective, theta: np.ndarray) -> tuple[np.ndarray, Objective]:
    """Maximise an objective from theta, and return what was maximised; no pass over the data.

    Raises
    ------
    WithoutLimitError
    """
    effects = objective.effects
    # No matrix of all parameters: conjugate gradients, in coordinates in which few are needed.
    found = _by_products(objective, theta) if len(effects.wide) else _by_matrices(objective, theta)
    if found is not None:
        return found, objective
    if len(effects.integrated_out) and 0.5 * objective.newton_decrement(theta) ** 2 > NEAR:
        # Not normal given the rest, the effects of a horseshoe say: the joint density must do.
        return maximise(objective.joint(), theta)
    return theta, objective


def _by_matrices(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    """Newton steps within a trust region, by the whole Hessian; None if each step fails."""

    def curvature(t: np.ndarray) -> np.ndarray:
        # A step beyond what doubles can hold is tried, and refused for its value.
        found = -objective.hessian(t)
        return found if np.all(np.isfinite(found)) else np.eye(len(t))

    highest, most = theta, -np.inf

    def height(t: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal highest, most
        value, gradient = objective(t)
        if value > most:
            highest, most = t, value
        return (-value if np.isfinite(value) else np.inf), -gradient

    try:
        result = minimize(
            height,
            theta,
            jac=True,
            hess=curvature,
            method="trust-exact",
            options={"initial_trust_radius": 10.0, "max_trust_radius": 1e4, "maxiter": 50},
        )
    except UnboundLocalError as error:
        # So ends SciPy's search for the damping of a step that finds none: curvatures are too large
        # for it where a density grows without limit, as towards a covariance that is singular.
        raise WithoutLimitError(highest) from error
    stuck = not result.success and np.array_equal(result.x, theta)
    return None if stuck else np.asarray(result.x)


def _by_products(objective: Objective, theta: np.ndarray) -> np.ndarray | None:
    """Newton steps within a trust region, by products of the Hessian; None if each step fails."""
    geometry = objective.geometry(theta)

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(geometry.unwhiten(v))
        return -value, -geometry.whiten_gradient(gradient)

    def hessian_times(v: np.ndarray, p: np.ndarray) -> np.ndarray:
        product = objective.hessian_times(geometry.unwhiten(v), geometry.spread(p))
        return -geometry.whiten_gradient(product)

    trust_radius = np.sqrt(len(theta))
    result = minimize(
        negative,
        np.zeros(len(theta)),
        jac=True,
        hessp=hessian_times,
        method="trust-ncg",
        # Half its square is what a gradient in these coordinates promises to gain.
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
