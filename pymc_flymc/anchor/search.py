"""Where bounds are tuned to: the posterior mode, found in a few passes over the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_flymc.anchor.effects import Effects, Objective, find_effects, moving
from pymc_flymc.anchor.kinks import has_kinks, sharpened
from pymc_flymc.anchor.laplace import LaplaceFactor
from pymc_flymc.anchor.proper import check_bounded, check_proper
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.anchor.trust_region import climb
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.passes import BLOCK
from pymc_flymc.regression.regression import JointExpansion, Regression, expand, names_of, spans_of
from pymc_flymc.reporting import doing, log

__all__ = ["Anchor", "anchor_at", "find_anchor", "laplace_anchor"]

#: The search ends when one more step would gain less than this in log density: then the anchor is
#: within sqrt(2 * 1e-3) of a posterior standard deviation of the mode.
TOLERANCE = 1e-3
#: The modes of a subsample and of all rows differ by about one of its posterior sds anyway.
SUBSAMPLE_TOLERANCE = 0.5
MAX_STEPS = 100
#: Coefficients beyond which the time that their matrices take is worth a warning.
MANY_COEFFICIENTS = 1000
#: Once a step would gain less, the search takes account of all that the objective's curvature has.
NEAR = 10.0
#: Columns that stand for the Laplace covariance of many coefficients: variances come out to a
#: quarter of their size, and steer no more than the slack of bounds.
SKETCH = 32


@dataclass(frozen=True)
class Anchor:
    """A point near the mode, and the posterior's Laplace approximation there.

    What concerns coefficients is for one likelihood; several have theta and `laplace` in common.

    Attributes
    ----------
    theta : ndarray, shape (D,)
        Centre of the Laplace approximation.
    w : ndarray, shape (P,)
        Coefficients at which bounds touch: those at theta, unless the user gave the anchor or it
        has moved.
    laplace : LaplaceFactor
        Factor of the Laplace covariance of theta.
    w_factor : ndarray, shape (P, D) or (P, SKETCH)
        w_factor w_factor' is the Laplace covariance of the coefficients, to first order. With wide
        elements in `laplace` it is so on average only, over columns drawn at random.
    information : ndarray or BlockMatrix, shape (P, P)
        Minus the Hessian of the log-likelihood in the coefficients.
    passes : float
        Passes over the data that the search took.
    """

    theta: np.ndarray
    w: np.ndarray
    laplace: LaplaceFactor
    w_factor: np.ndarray
    information: Any
    passes: float


@doing("searching for the posterior mode")
def find_anchor(
    surrogate: Surrogate,
    regressions: Sequence[Regression],
    start: np.ndarray,
    layout: Layout,
) -> tuple[Anchor, ...]:
    """Find the mode by damped Newton steps, on a subsample first.

    Each step expands the log-likelihoods in w to second order (one pass), maximises this quadratic
    plus the exact rest of the model over theta (no pass), and is shortened until the true log
    density rises.

    Parameters
    ----------
    start : ndarray, shape (D,)
    layout : Layout
        Names of the parameters, for messages.

    Returns
    -------
    tuple of Anchor
        One for each regression.

    Raises
    ------
    ValueError
        If the log density at the start is not finite, or if the posterior has no mode that can be
        found, as with separable data under a flat prior.
    """
    for regression in regressions:
        p = regression.design.n_coefficients
        if p > MANY_COEFFICIENTS and not regression.design.structured:
            log.warning(
                f"{regression.name!r} has {p:,} coefficients: the set-up decomposes matrices of "
                f"{8e-6 * p**2:,.0f} MB, and every transition reads "
                "one. Fewer columns, such as principal components, would serve Firefly better"
            )
    theta, passes = np.asarray(start, dtype=np.float64), 0.0
    effects = find_effects(surrogate, [each.design for each in regressions], layout)
    stages = _strides(regressions)
    for i, strides in enumerate(stages):
        theta, passes, expansion, objective, previous = _newton(
            surrogate, regressions, theta, strides, passes, effects, layout
        )
        check_bounded(surrogate, regressions, theta, expansion, layout)
        # Unbounded, as where the common scale of some coefficients goes to zero with them: begin
        # again, with all coefficients that have no part in others' scales integrated out.
        if i == 0 and not len(effects.wide) and _promise(objective, theta) > NEAR:
            effects = replace(effects, positions=moving(surrogate, theta))
            theta, passes, expansion, objective, previous = _newton(
                surrogate, regressions, start, strides, passes, effects, layout
            )
        if i == len(stages) - 2 and has_kinks(regressions):
            near = laplace_anchor(surrogate, regressions, objective, expansion, theta, effects, 0.0)
            regressions = sharpened(regressions, near)
    check_proper(surrogate, regressions, theta, expansion, previous, effects, layout)
    return laplace_anchor(surrogate, regressions, objective, expansion, theta, effects, passes)


def _strides(regressions: Sequence[Regression]) -> list[list[int]]:
    """Return the strides of each regression's rows, on smaller subsamples first."""
    # Rows that pin the mode down to about one posterior sd of the subsample.
    wanted = [max(4 * BLOCK, 100 * each.design.n_coefficients) for each in regressions]
    n_rows = [each.design.n_rows for each in regressions]
    found = [[max(1, n // m) for n, m in zip(n_rows, wanted, strict=True)]]
    # At least two if there are kinks, which are sharpened for the last one.
    while max(found[-1]) > 1 or (len(found) == 1 and has_kinks(regressions)):
        found.append([stride // 8 or 1 for stride in found[-1]])
    return found


def anchor_at(
    surrogate: Surrogate, regressions: Sequence[Regression], theta: np.ndarray, layout: Layout
) -> tuple[Anchor, ...]:
    """Anchor at a point given by the user."""
    effects = find_effects(surrogate, [each.design for each in regressions], layout)

    def anchors_of(regressions: Sequence[Regression]) -> tuple[Anchor, ...]:
        expansion = expand(regressions, surrogate.coefficients(theta))
        check_proper(surrogate, regressions, theta, expansion, None, effects, layout)
        # Bounds touch at the given point; proposals are centred at the expansion's mode.
        centre, objective = _maximise(surrogate, expansion.concave().pack(), theta, effects)
        return laplace_anchor(surrogate, regressions, objective, expansion, centre, effects, 1.0)

    anchors = anchors_of(regressions)
    return anchors_of(sharpened(regressions, anchors)) if has_kinks(regressions) else anchors


def _newton(
    surrogate: Surrogate,
    regressions: Sequence[Regression],
    theta: np.ndarray,
    strides: Sequence[int],
    passes: float,
    effects: Effects,
    layout: Layout,
) -> tuple[np.ndarray, float, JointExpansion, Objective, JointExpansion | None]:
    names = names_of(regressions)
    n_rows = np.array([each.design.n_rows for each in regressions])
    share = float(np.sum(n_rows / strides) / np.sum(n_rows))
    tolerance = TOLERANCE if max(strides) == 1 else SUBSAMPLE_TOLERANCE

    def expand_at(theta: np.ndarray) -> JointExpansion:
        return expand(regressions, surrogate.coefficients(theta), strides)

    expansion, previous = expand_at(theta), None
    passes += share
    start = surrogate(theta, expansion.pack())[0]
    if not np.isfinite(start):
        raise ValueError(
            f"the log density of the model with likelihood {names} is {start} at the start of the "
            "anchor search; give FireflyMH an anchor=, or the variables other initial values"
        )
    near = not len(effects.positions)
    for _ in range(MAX_STEPS):
        proposal, objective = _maximise(surrogate, expansion.concave().pack(), theta, effects, near)
        value, gradient = objective(theta)
        predicted = objective(proposal)[0] - value
        if not near and predicted < NEAR:
            near = True
            continue
        if predicted < tolerance:
            return theta, passes, expansion, objective, previous
        slope = gradient @ (proposal - theta)
        step = 1.0
        while True:
            candidate = theta + step * (proposal - theta)
            new_expansion = expand_at(candidate)
            new_value = objective.with_statistics(new_expansion.pack())(candidate)[0]
            passes += share
            if new_value > value:
                break
            # To the top of the parabola through what is known, within limits.
            shortfall = slope * step - (new_value - value) if np.isfinite(new_value) else np.inf
            step *= np.clip(0.5 * slope * step / shortfall, 0.05, 0.5)
            if step < 1e-6:  # rounding: no further progress is possible
                return theta, passes, expansion, objective, previous
        theta, expansion, previous = candidate, new_expansion, expansion
    runaway = int(np.argmax(np.abs(theta)))
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {names}: {layout.describe(runaway)} "
        f"has reached {theta[runaway]:.3g}. If the predictors separate the outcomes, the "
        "likelihood alone does not pin the coefficients down: give them a proper prior, or give "
        "FireflyMH an anchor="
    )


def _maximise(
    surrogate: Surrogate,
    statistics: np.ndarray,
    theta: np.ndarray,
    effects: Effects,
    near: bool = True,
) -> tuple[np.ndarray, Objective]:
    """Maximise the surrogate from theta, and return what was maximised; no pass over the data."""
    objective = Objective(surrogate, statistics, effects, near)
    # No matrix of all parameters: conjugate gradients, in coordinates in which few are needed.
    laplace = objective.laplace_factor(theta) if len(effects.wide) else None
    found = climb(objective, theta, laplace)
    if found is None and len(effects.positions) and _promise(objective, theta) > NEAR:
        # Not normal given the rest, the effects of a horseshoe say: the joint density must do.
        without = replace(effects, positions=np.empty(0, np.int64))
        return _maximise(surrogate, statistics, theta, without)
    return theta if found is None else found, objective


def _promise(objective: Objective, theta: np.ndarray) -> float:
    """Gain that a Newton step from theta promises.

    With effects integrated out the gradient is right on average only: where little is left to
    gain, steps along it may fail, and the search is over.
    """
    gradient = objective(theta)[1]
    return 0.5 * float(np.sum(objective.laplace_factor(theta).apply_transposed(gradient) ** 2))


def laplace_anchor(
    surrogate: Surrogate,
    regressions: Sequence[Regression],
    objective: Objective,
    expansion: JointExpansion,
    theta: np.ndarray,
    effects: Effects,
    passes: float,
) -> tuple[Anchor, ...]:
    """Anchors with the Laplace approximation of an objective at theta."""
    laplace = objective.with_statistics(expansion.pack()).laplace_factor(theta)
    if len(effects.wide):
        rng = np.random.default_rng(20141104)
        draws = rng.standard_normal((SKETCH, len(theta))) / np.sqrt(SKETCH)
        columns = [surrogate.pushforward(theta, laplace.apply(v)) for v in draws]
        w_factor = np.stack(columns, axis=1)
    else:
        w_factor = surrogate.jacobian(theta) @ laplace.factor
    return tuple(
        Anchor(theta, part.w, laplace, w_factor[span], part.information, passes)
        for part, span in zip(expansion.parts, spans_of(regressions), strict=True)
    )
