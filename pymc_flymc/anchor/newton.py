"""Damped Newton steps to a mode, and why a search has not found one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pymc.util import get_untransformed_name, is_transformed_name
from scipy.sparse import diags_array

from pymc_flymc.anchor.expanded_density import nearby
from pymc_flymc.anchor.objective import LogPosterior, Objective, PrecisionBlocks
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.likelihood import LOG_SCALE
from pymc_flymc.order import first_largest, n_largest
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.regression import Regression, slices_of

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
#: A search by products of the Hessian also ends if the predicted gain is less than this share of
#: what it has gained.
LEAST_LEFT = 0.01
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
            f"{best[i]:.6g} (unconstrained), as at a covariance that is singular. Give it "
            "a prior that keeps away from there"
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

    geometry, start = objective.geometry(theta), objective.value(theta)
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
        refused = short >= MAX_SHORT and predicted < LEAST_FROM_AFAR
        # The next pass changes the objective, so that more digits of this maximum are of no use.
        if refused or predicted < LEAST_LEFT * (most - start):
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


#: Most parameters that a message names, and the least share of a named one in a line.
NAMED, LEAST_SHARE = 4, 0.1


@dataclass(frozen=True)
class Lines:
    """Eigenvectors of the precision, of parameters in units of their conditional sds."""

    objective: Objective
    theta: np.ndarray  #: Where the precision was computed.
    values: np.ndarray  #: Eigenvalues, in ascending order, (L,).
    vectors: np.ndarray  #: Eigenvectors, of the dense elements, (L, M).
    #: The same in units of the parameters, (L, D); effects of groups follow by their means.
    directions: np.ndarray

    @classmethod
    def of(
        cls, objective: Objective, theta: np.ndarray, blocks: PrecisionBlocks, largest: float
    ) -> Lines:
        """Return the lines with eigenvalues smaller than `largest`, from the precision there."""
        effects = objective.effects
        precision, follow = blocks.of_dense()
        scale = conditional_sds(blocks.block)
        values, vectors = np.linalg.eigh(scale[:, None] * precision * scale)
        small = values < largest
        directions = np.zeros((np.count_nonzero(small), len(theta)))
        along = scale[:, None] * vectors[:, small]
        directions[:, effects.dense] = along.T
        directions[:, effects.diagonal] = (follow @ along).T
        return cls(objective, theta, values[small], vectors[:, small].T, directions)

    def terms(self, expansion: JointExpansion) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows' curvature along each line, and the sum of its terms' absolute values."""
        posterior = self.objective.posterior
        spans, found = slices_of(posterior.regressions), np.zeros((len(self.directions), 2))
        for total, v in zip(found, self.directions, strict=True):
            u = posterior.density.pushforward(self.theta, v)
            for part, span in zip(expansion.parts, spans, strict=True):
                total += part.information.form(u[span])
        return found[:, 0], found[:, 1]

    def described(self, i: int) -> str:
        """Return which parameters' columns are nearly multiples of each other, and how nearly."""
        weights = np.abs(self.vectors[i])
        places = n_largest(weights, NAMED)
        describe = self.objective.posterior.layout.describe
        dense = self.objective.effects.dense
        names = [describe(int(dense[k])) for k in places if weights[k] > LEAST_SHARE]
        left = np.sqrt(max(float(self.values[i]), float(np.finfo(np.float64).eps)))
        return (
            f"the columns that {', '.join(names)} multiply are collinear but for about "
            f"{left:.1g} of their size"
        )


#: Largest checked eigenvalue of the precision, of parameters in units of their conditional sds; and
#: the share of the rows' terms that is left if they cancel.
SMALL, CANCELLED_SUMS = 1e-10, 1e-8
#: Largest rounding error of the log density within a posterior sd that draws do not show.
LARGEST_ERROR = 0.05
EPSILON = float(np.finfo(np.float64).eps)


def check_digits(names: str, lines: Lines, expansion: JointExpansion) -> None:
    """Refuse a posterior along a direction of which collapsed sums are rounding errors."""
    form, size = lines.terms(expansion)
    # If the curvature vanishes for another reason, as along the ridge of a product or in a funnel,
    # there are no large terms that cancel. For equal columns they cancel to the last digit, and the
    # prior alone determines the width of the posterior.
    total = np.maximum(lines.values, EPSILON)
    cancelled = (np.abs(form) < CANCELLED_SUMS * size) & (
        np.abs(form) > 2.0 * LARGEST_ERROR * total
    )
    lost = np.flatnonzero(cancelled & (EPSILON * size > LARGEST_ERROR * total))
    if len(lost):
        raise ValueError(
            f"{lines.described(int(lost[0]))}, and the posterior "
            f"of {names} is wide along that line: sums over rows are rounding errors "
            "there. Centre such columns, as a date: subtract the mean and divide by the standard "
            "deviation; or give these parameters narrower priors"
        )


#: A scale has collapsed if it is this small beside the standard deviation of the outcomes.
COLLAPSED = 1e-5


def why_scale_collapsed(posterior: LogPosterior, theta: np.ndarray) -> str | None:
    """Return sentences on a scale of noise that is next to zero at theta, None if there is none."""
    w = posterior.density.coefficients(theta)
    for regression, span in zip(
        posterior.regressions, slices_of(posterior.regressions), strict=True
    ):
        place = _place_of_log_scale(regression, span)
        if place is None or np.exp(w[place]) > COLLAPSED * _spread(regression):
            continue
        i = _parameter_of(posterior, theta, place)
        name = posterior.layout.describe(i)
        name = get_untransformed_name(name) if is_transformed_name(name) else name
        return (
            f"the scale of the noise of {regression.name!r}, which is made of {name!r}, has "
            f"reached {np.exp(w[place]):.1e}: the rows can be fitted exactly, so that the density "
            "has no mode at a positive scale, but grows without limit towards zero. Give the scale "
            f"a prior that is zero at zero, such as {name} = pm.InverseGamma({name!r}, 2, 1)"
        )
    return None


def noise_scales(posterior: LogPosterior, theta: np.ndarray) -> np.ndarray:
    """Return the indices of the parameters that scales of noise are made of."""
    regressions = posterior.regressions
    spans = zip(regressions, slices_of(regressions), strict=True)
    places = [place for each in spans if (place := _place_of_log_scale(*each)) is not None]
    return np.flatnonzero(posterior.density.jacobian(nearby(theta))[places].any(axis=0))


def _place_of_log_scale(regression: Regression, span: slice) -> int | None:
    nuisances = tuple(regression.likelihood.nuisances)
    if LOG_SCALE not in nuisances:
        return None
    return span.stop - len(nuisances) + nuisances.index(LOG_SCALE)


def _spread(regression: Regression) -> float:
    y = regression.y if regression.y.ndim == 1 else regression.y[:, 0]
    if regression.design.stored is not None:
        return 0.0  # outcomes are out of core
    spread = float(np.std(y))
    return spread if spread > 0.0 else max(1.0, float(np.abs(y).max(initial=0.0)))


def _parameter_of(posterior: LogPosterior, theta: np.ndarray, place: int) -> int:
    """Return the element of theta that a coefficient changes most with."""
    changes = []
    for j in posterior.effects.dense:
        v = np.zeros(len(theta))
        v[j] = 1.0
        changes.append(abs(posterior.density.pushforward(theta, v)[place]))
    return int(posterior.effects.dense[int(np.argmax(changes))])


#: A Newton step towards separated outcomes shrinks the rows' curvature along it by a factor of e.
SHRINKING = 0.7
#: If a column's mean is m times its spread, a share of 1 / m**2 of its curvature is left next to an
#: intercept: it is named from m = 10 on.
CANCELLED = 0.01
#: Share of a Newton step's predicted gain along a line that explains why the search goes on.
MOST = 0.5


def why_not_found(
    objective: Objective,
    theta: np.ndarray,
    proposal: np.ndarray,
    expansion: JointExpansion,
    previous: JointExpansion | None,
) -> str:
    """Return sentences on why Newton steps to a `proposal` have not ended, and what to do."""
    why = why_scale_collapsed(objective.posterior, theta)
    if why is not None:
        return why[0].upper() + why[1:]
    if previous is not None and _is_separated(objective, theta, proposal, expansion, previous):
        return (
            "The rows' curvature vanishes on the way: where the predictors separate the outcomes, "
            "the likelihood alone does not pin the coefficients down. Give them a proper prior"
        )
    line = _collinear(objective, theta, expansion)
    if line is not None:
        return (
            f"There {line}, as of a column whose values are far from zero beside their spread. "
            "Centre such columns, as a date: subtract the mean and divide by the standard deviation"
        )
    gain = objective.value(proposal) - objective.value(theta)
    return (
        f"One more step was to raise the log density by {gain:.3g}. Standardise columns, give "
        "parameters priors that keep them near values that are plausible, or give FireflyMH an "
        "anchor="
    )


def _is_separated(
    objective: Objective,
    theta: np.ndarray,
    proposal: np.ndarray,
    expansion: JointExpansion,
    previous: JointExpansion,
) -> bool:
    """Return whether the last step took curvature from the rows along the next, with a gain."""
    along, step = objective.posterior.curvature_along, proposal - theta
    before, now = along(theta, previous, step), along(theta, expansion, step)
    return now < SHRINKING * before and expansion.value > previous.value


def _collinear(objective: Objective, theta: np.ndarray, expansion: JointExpansion) -> str | None:
    """Return which columns are nearly multiples of each other, if the search is stuck there."""
    gradient = objective(theta)[1]
    lines = Lines.of(objective, theta, objective.precision_blocks(theta), np.inf)
    if not np.all(lines.values > 0.0):
        return None
    gains = (lines.directions @ gradient) ** 2 / lines.values
    i = int(np.argmax(gains))
    form, size = lines.terms(expansion)
    if gains[i] < MOST * np.sum(gains) or abs(form[i]) > CANCELLED * size[i]:
        return None
    return lines.described(i)


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
#: With effects integrated out, a step that is to gain less than `NEAR`, or than this for each
#: effect, is made although it does not raise the density, if the next one would gain less than the
#: share `CLOSER` of that. Near the mode the gradient is the guide: it ignores that the effects'
#: precision changes with the rows' curvature, and the density does not.
GAIN_OF_EFFECT, CLOSER = 0.01, 0.5
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
    own = Objective(posterior, concave, near)
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
            proposal, _ = maximise(own.with_expansion(usable), theta)
        n_effects = len(posterior.effects.integrated_out)
        close = n_effects > 0 and predicted < max(NEAR, GAIN_OF_EFFECT * n_effects)
        step, failures, damping = 1.0, 0, 0.0 if close else damping
        while True:
            if damping > 0.0:
                if at_start is None:
                    at_start = posterior.expand(start, strides).concave()
                    passes += share
                damped = usable.damped(damping, at_start)
                candidate, _ = maximise(own.with_expansion(damped), theta)
            else:
                candidate = theta + step * (proposal - theta)
            new_expansion = posterior.expand(candidate, strides)
            # Concave as at theta: otherwise precisions of effects may be close to zero.
            new_concave = new_expansion.concave()
            there = objective.with_expansion(new_concave)
            new_value, _ = there(candidate)
            passes += share
            if new_value > value:
                break
            if close and damping == 0.0 and step == 1.0:
                further, last = maximise(there, candidate)
                if last.value(further) - last.value(candidate) < CLOSER * predicted:
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
        own = there if same else own.with_expansion(concave)
    runaway = first_largest(np.abs(theta))
    further, last = maximise(own, theta)
    raise ValueError(
        f"no posterior mode found in {passes:.0f} passes over {posterior.names}: "
        f"{posterior.layout.describe(runaway)} has reached {theta[runaway]:.3g}. "
        f"{why_not_found(last, theta, further, expansion, previous)}"
    )
