"""Where bounds are tuned to: the posterior mode, found in a few passes over the data."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from pymc_flymc.density import Layout, Surrogate
from pymc_flymc.design import Design
from pymc_flymc.passes import BLOCK, LikelihoodExpansion, RowDerivatives, likelihood_pass

__all__ = ["Anchor", "anchor_at", "find_anchor"]

_log = logging.getLogger("pymc.flymc")

#: The search ends when one more step would gain less than this in log density: then the anchor is
#: within sqrt(2 * 1e-3) of a posterior standard deviation of the mode.
TOLERANCE = 1e-3
#: The modes of a subsample and of all rows differ by about one of its posterior sds anyway.
SUBSAMPLE_TOLERANCE = 0.5
MAX_STEPS = 100
#: Coefficients beyond which the time that their matrices take is worth a warning.
MANY_COEFFICIENTS = 1000


@dataclass(frozen=True)
class Anchor:
    """A point near the mode, and the posterior's Laplace approximation there.

    Attributes
    ----------
    theta : ndarray, shape (D,)
        Centre of the Laplace approximation.
    w : ndarray, shape (P,)
        Coefficients at which bounds touch: those at theta, unless the user gave the anchor.
    factor : ndarray, shape (D, D)
        Lower Cholesky factor of the Laplace covariance of theta.
    w_factor : ndarray, shape (P, D)
        w_factor w_factor' is the Laplace covariance of the coefficients, to first order.
    information : ndarray, shape (P, P)
        Minus the Hessian of the log-likelihood in the coefficients.
    passes : float
        Passes over the data that the search took.
    """

    theta: np.ndarray
    w: np.ndarray
    factor: np.ndarray
    w_factor: np.ndarray
    information: np.ndarray
    passes: float


def find_anchor(
    surrogate: Surrogate,
    design: Design,
    y: np.ndarray,
    derivatives: RowDerivatives,
    start: np.ndarray,
    layout: Layout,
    name: str,
) -> Anchor:
    """Find the mode by damped Newton steps, on a subsample first.

    Each step expands the log-likelihood in w to second order (one pass), maximises this quadratic
    plus the exact rest of the model over theta (no pass), and is shortened until the true log
    density rises.

    Parameters
    ----------
    start : ndarray, shape (D,)
    layout : Layout
        Names of the parameters, for messages.
    name : str
        Name of the observed variable, for messages.

    Raises
    ------
    ValueError
        If the log density at the start is not finite, or if the posterior has no mode that can be
        found, as with separable data under a flat prior.
    """
    if design.n_coefficients > MANY_COEFFICIENTS:
        p = design.n_coefficients
        _log.warning(
            f"{name!r} has {p:,} coefficients, counting those of each class: the set-up "
            f"decomposes matrices of {8e-6 * p**2:,.0f} MB, and every transition reads one. Fewer "
            "columns, such as principal components, would serve Firefly better"
        )
    theta, passes = np.asarray(start, dtype=np.float64), 0.0
    # Rows that pin the mode down to about one posterior sd of the subsample.
    wanted = max(4 * BLOCK, 100 * design.n_coefficients)
    stride = max(1, design.n_rows // wanted)
    strides = [stride]
    while stride > 1:
        strides.append(stride := stride // 8 or 1)
    for stride in strides:
        theta, passes, expansion = _newton(
            surrogate, design, y, derivatives, theta, stride, passes, layout, name
        )
    _check_proper(surrogate, expansion, theta, layout, name)
    return _laplace(surrogate, expansion, theta, passes)


def anchor_at(
    surrogate: Surrogate,
    design: Design,
    y: np.ndarray,
    derivatives: RowDerivatives,
    theta: np.ndarray,
) -> Anchor:
    """Anchor at a point given by the user."""
    expansion = likelihood_pass(design, y, derivatives, surrogate.coefficients(theta))
    # Bounds touch at the given point; proposals are centred at the mode of the expansion there.
    centre = _maximise(surrogate, expansion.concave().pack(), theta)
    return _laplace(surrogate, expansion, centre, 1.0)


def _check_proper(
    surrogate: Surrogate,
    expansion: LikelihoodExpansion,
    theta: np.ndarray,
    layout: Layout,
    name: str,
) -> None:
    """Refuse a mode at infinity: a likelihood close to one, flat together with the prior.

    Under a flat prior separable data have no posterior; the search stops where the likelihood
    cannot rise noticeably any more.
    """
    if abs(expansion.value) > 0.1:
        return
    empty = LikelihoodExpansion(
        0.0, np.zeros_like(expansion.gradient), np.zeros_like(expansion.information), expansion.w
    )
    values, vectors = np.linalg.eigh(-surrogate.hessian(theta, empty.pack()))
    if values[0] < 1e-8:
        flat = layout.describe(int(np.argmax(np.abs(vectors[:, 0]))))
        raise ValueError(
            f"no posterior mode found: the predictors separate the outcomes of {name!r}, and the "
            f"prior of {flat} is flat. Give it a proper prior"
        )


def _newton(
    surrogate: Surrogate,
    design: Design,
    y: np.ndarray,
    derivatives: RowDerivatives,
    theta: np.ndarray,
    stride: int,
    passes: float,
    layout: Layout,
    name: str,
) -> tuple[np.ndarray, float, LikelihoodExpansion]:
    began = time.perf_counter()

    def expand(theta: np.ndarray) -> tuple[LikelihoodExpansion, float]:
        expansion = likelihood_pass(design, y, derivatives, surrogate.coefficients(theta), stride)
        return expansion, surrogate(theta, expansion.pack())[0]

    expansion, value = expand(theta)
    passes += 1 / stride
    if not np.isfinite(value):
        raise ValueError(
            f"the log density of the model with likelihood {name!r} is {value} at the start of the "
            "anchor search; give FireflyMH an anchor=, or the variables other initial values"
        )
    for _ in range(MAX_STEPS):
        statistics = expansion.concave().pack()
        proposal = _maximise(surrogate, statistics, theta)
        predicted = surrogate(proposal, statistics)[0] - value
        if predicted < (TOLERANCE if stride == 1 else SUBSAMPLE_TOLERANCE):
            return theta, passes, expansion
        slope = surrogate(theta, statistics)[1] @ (proposal - theta)
        step = 1.0
        while True:
            candidate = theta + step * (proposal - theta)
            new_expansion, new_value = expand(candidate)
            passes += 1 / stride
            if new_value > value:
                break
            # To the top of the parabola through what is known, within limits.
            shortfall = slope * step - (new_value - value) if np.isfinite(new_value) else np.inf
            step *= np.clip(0.5 * slope * step / shortfall, 0.05, 0.5)
            if step < 1e-6:  # rounding: no further progress is possible
                return theta, passes, expansion
        theta, expansion, value = candidate, new_expansion, new_value
        if time.perf_counter() - began > 2.0:
            _log.info(f"Anchor search: {passes:.1f} passes over {name}, log density {value:.6g}")
    runaway = int(np.argmax(np.abs(theta)))
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {name!r}: {layout.describe(runaway)} "
        f"has reached {theta[runaway]:.3g}. If the predictors separate the outcomes, the "
        "likelihood alone does not pin the coefficients down: give them a proper prior, or give "
        "FireflyMH an anchor="
    )


def _maximise(surrogate: Surrogate, statistics: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Maximise the surrogate from theta; no pass over the data."""
    result = minimize(
        lambda t: tuple(-part for part in surrogate(t, statistics)),
        theta,
        jac=True,
        hess=lambda t: -surrogate.hessian(t, statistics),
        method="trust-exact",
        options={"initial_trust_radius": 10.0, "max_trust_radius": 1e4, "maxiter": 50},
    )
    return np.asarray(result.x)


def _laplace(
    surrogate: Surrogate, expansion: LikelihoodExpansion, theta: np.ndarray, passes: float
) -> Anchor:
    precision = -surrogate.hessian(theta, expansion.pack())
    if not np.all(np.isfinite(precision)):
        raise ValueError("the curvature of the log density at the anchor is not finite")
    # Away from a mode (a funnel, a given anchor) the curvature can vanish or be negative somewhere.
    # The Laplace covariance only guides proposals: there, any moderate scale will do.
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(precision)), 1e-8))
    values, vectors = np.linalg.eigh(precision * np.outer(scale, scale))
    values = np.where(values > 1e-10, values, 0.1)
    factor = np.linalg.cholesky((vectors / values) @ vectors.T) * scale[:, None]
    w_factor = surrogate.jacobian(theta) @ factor
    return Anchor(theta, expansion.w, factor, w_factor, expansion.information, passes)
