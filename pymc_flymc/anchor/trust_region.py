"""Maxima of smooth functions of the parameters."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from pymc_flymc.anchor.effects import Objective
from pymc_flymc.anchor.laplace import LaplaceFactor

__all__ = ["climb"]


def climb(
    objective: Objective, theta: np.ndarray, laplace: LaplaceFactor | None
) -> np.ndarray | None:
    """Maximise a smooth function by Newton steps within a trust region; None if each step fails."""
    if laplace is None:

        def curvature(t: np.ndarray) -> np.ndarray:
            # A step beyond what doubles can hold is tried, and refused for its value.
            found = -objective.hessian(t)
            return found if np.all(np.isfinite(found)) else np.eye(len(t))

        def height(t: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective(t)
            return (-value if np.isfinite(value) else np.inf), -gradient

        result = minimize(
            height,
            theta,
            jac=True,
            hess=curvature,
            method="trust-exact",
            options={"initial_trust_radius": 10.0, "max_trust_radius": 1e4, "maxiter": 50},
        )
        stuck = not result.success and np.array_equal(result.x, theta)
        return None if stuck else np.asarray(result.x)

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(theta + laplace.apply(v))
        return -value, -laplace.apply_transposed(gradient)

    def hessian_times(v: np.ndarray, p: np.ndarray) -> np.ndarray:
        product = objective.hessian_times(theta + laplace.apply(v), laplace.apply(p))
        return -laplace.apply_transposed(product)

    radius = np.sqrt(len(theta))
    result = minimize(
        negative,
        np.zeros(len(theta)),
        jac=True,
        hessp=hessian_times,
        method="trust-ncg",
        # Half its square is what a gradient in these coordinates promises to gain.
        options={
            "initial_trust_radius": radius,
            "max_trust_radius": 1e3 * radius,
            "gtol": 0.02,
            "maxiter": 20,
        },
    )
    if not result.success and not result.x.any():
        return None
    return theta + laplace.apply(np.asarray(result.x))
