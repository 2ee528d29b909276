"""Mode finding: the posterior mode, and the anchor there, in a few passes over the data."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.anchor.coefficient_factor import coefficient_factor
from pymc_flymc.anchor.effects import collapsed, moving
from pymc_flymc.anchor.expanded_density import ExpandedDensity
from pymc_flymc.anchor.newton import (
    NEAR,
    SMALL,
    TOLERANCE,
    Lines,
    ModeResult,
    check_digits,
    find_mode,
    maximise,
    noise_scales,
    share_of,
    why_scale_collapsed,
)
from pymc_flymc.anchor.objective import LogPosterior, Objective
from pymc_flymc.anchor.propriety import check_bounded, check_proper
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.likelihoods.likelihood import SmoothedLikelihood
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.derivatives import DEFAULT_SMOOTHING
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.matrices import BLOCK
from pymc_flymc.regression.passes import iterate_rows
from pymc_flymc.regression.regression import Regression, expand, slices_of
from pymc_flymc.reporting import doing, log

#: Most products with the precision: each costs a gradient without rows.
STEPS = 40
#: Directions are separated if their precision is less than this share of the other coordinates'.
#: There may be many others, and each costs as much as a dense parameter.
SLOW = 0.5
#: Most directions that are kept.
MOST = 16
#: Largest squared error of an eigenvector, in proportion to its eigenvalue: with a larger error,
#: stretching would correlate it with other directions.
ERROR = 0.1
#: Least eigenvalue: a smaller one is rounding, or there is no mode.
LEAST_EIGENVALUE = 1e-8


def with_slow_directions(
    geometry: Geometry, precision_times: Callable[[np.ndarray], np.ndarray]
) -> Geometry:
    """Return a geometry with directions that couple diagonal elements, by Lanczos' method."""
    if not len(geometry.diagonal):
        return geometry

    def standardised_precision_times(v: np.ndarray) -> np.ndarray:
        return geometry.standardise_gradient(precision_times(geometry.spread(v)))

    values, vectors, errors = _lanczos(standardised_precision_times, len(geometry.centre))
    good = (values > LEAST_EIGENVALUE) & (values < SLOW) & (errors**2 < ERROR * values)
    kept = np.flatnonzero(good)[:MOST]  # the slowest first
    return geometry._replace(
        directions=np.ascontiguousarray(vectors[kept]), stretch=values[kept] ** -0.5 - 1.0
    )


def _lanczos(
    times: Callable[[np.ndarray], np.ndarray], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Ritz values of a symmetric matrix, in ascending order, vectors as rows, and errors."""
    v = np.random.default_rng(20141104).standard_normal(size)
    basis, diagonal, beside = [v / np.linalg.norm(v)], np.zeros(STEPS), np.zeros(STEPS)
    for i in range(min(STEPS, size)):
        w = times(basis[i])
        diagonal[i] = basis[i] @ w
        for _ in range(2):  # a second time removes the rounding errors of the first
            for each in basis:
                w -= (each @ w) * each
        beside[i] = np.linalg.norm(w)
        # All directions in which the start has a part are found: for independent effects at once.
        if not beside[i] > 1e-6 * np.max(np.abs(diagonal)):
            break
        basis.append(w / beside[i])
    n = i + 1
    tridiagonal = np.diag(diagonal[:n]) + np.diag(beside[: n - 1], 1) + np.diag(beside[: n - 1], -1)
    if not np.all(np.isfinite(tridiagonal)):
        return np.empty(0), np.empty((0, size)), np.empty(0)
    values, weights = np.linalg.eigh(tridiagonal)
    return values, weights.T @ np.stack(basis[:n]), beside[n - 1] * np.abs(weights[-1])


def any_non_smooth(regressions: Sequence[Regression]) -> bool:
    """Return whether a likelihood has non-smooth points."""
    return any(isinstance(each.likelihood, SmoothedLikelihood) for each in regressions)


def smoothed_around(regressions: Sequence[Regression], anchor: Anchor) -> tuple[Regression, ...]:
    """Return regressions, each row smoothed over the posterior sd of its predictor."""
    # The mean of a log density over the posterior is as smooth. Smoothed over more, the sum over
    # rows has its mode elsewhere if residuals are denser on one side of zero: with many rows, many
    # posterior sds away. Smoothed over less, its curvature comes from the few rows nearest to zero.
    return tuple(
        _smoothed_around(each, near) if isinstance(each.likelihood, SmoothedLikelihood) else each
        for each, near in zip(regressions, anchor.parts, strict=True)
    )


def _smoothed_around(regression: Regression, near: AnchorPart) -> Regression:
    likelihood, design = regression.likelihood, regression.design
    assert isinstance(likelihood, SmoothedLikelihood)
    factor, nuisances = near.w_factor[: design.width], near.w[design.width :]
    rounding = np.empty(design.n_rows)
    for rows, x, *_ in iterate_rows(design, regression.y, near.w):
        spread = np.linalg.norm(x @ factor, axis=1)
        # Above zero, for rows that no coefficient moves.
        rounding[rows] = np.clip(likelihood.rounding(spread, nuisances), 1e-10, DEFAULT_SMOOTHING)
    return replace(regression, y=np.column_stack([regression.y, rounding]))


#: The search over many rows ends when a step would gain less than this, for each parameter and in
#: all. Then bounds touch within one sd of the mode, and the mean square of the
#: draws' distance from there is larger by one per cent. The step to the centre of the Laplace
#: approximation is still made: it takes no pass.
TALL_TOLERANCE, LARGEST_TOLERANCE = 0.005, 0.5
#: Tolerance on subsamples, for each parameter: their mode differs from the final one by as much.
SUBSAMPLE_TOLERANCE = 0.25
#: Largest ratio of the numbers of rows of a subsample and the previous one.
GROWTH = 12
#: Number of rows of a sample of rows out of core.
SAMPLE = 1 << 18
#: Number of coefficients beyond which the time for their matrices is worth a warning.
MANY_COEFFICIENTS = 1000


class ModeFinder:
    """Finds an anchor for the likelihoods of a model, or makes one at a given point."""

    def __init__(
        self, density: ExpandedDensity, regressions: Sequence[Regression], layout: Layout
    ) -> None:
        self._posterior = LogPosterior.of(density, regressions, layout)

    @doing("searching for the posterior mode")
    def find(self, start: np.ndarray) -> Anchor:
        """Find the mode by damped Newton steps from `start`, (D,), on a subsample first."""
        posterior = self._posterior
        _warn_of_many_coefficients(posterior.regressions)
        theta = start = np.asarray(start, dtype=np.float64)
        stages = _strides(posterior.regressions)
        n_rows = [regression.design.n_rows for regression in posterior.regressions]
        posterior, passes = _with_modes(posterior, start, stages[0])
        for i, strides in enumerate(stages):
            is_tall = i > 0 or any(n > 4 * BLOCK for n in n_rows)
            tolerance = _tolerance(len(theta), is_tall, max(strides) == 1)
            found = find_mode(posterior, theta, start, strides, tolerance, passes)
            check_bounded(posterior, found.theta, found.expansion)
            if i == 0 and not len(posterior.effects.diagonal):
                posterior, found = _integrated(posterior, found, start, strides, tolerance)
            _check_scales(posterior, found)
            theta, passes = found.centre, found.passes
            if i == len(stages) - 2 and any_non_smooth(posterior.regressions):
                posterior = _smoothed(posterior, _anchor(posterior, found))
        check_proper(posterior, found)
        return _anchor(posterior, found, of_all_rows=True)

    def at(self, theta: np.ndarray) -> Anchor:
        """Return an anchor at a user's point, where bounds touch, with proposals at the mode."""

        def made(posterior: LogPosterior) -> Anchor:
            expansion = posterior.expand(theta)
            posterior.value(theta, expansion)
            objective = Objective(posterior, expansion.concave())
            check_proper(posterior, ModeResult(theta, theta, objective, expansion, None, 1.0))
            centre, objective = maximise(objective, theta)
            found = ModeResult(theta, centre, objective, expansion, None, 1.0)
            return _anchor(posterior, found, of_all_rows=True)

        return self._smoothed_twice(made)

    def around(self, theta: np.ndarray, w: np.ndarray) -> Anchor:
        """Return an anchor at means of draws: theta, (D,), and the coefficients w, (P,).

        If w(theta) is not linear, w differs from the coefficients at theta. Only the curvature of
        the log-likelihood is carried over to these, and its slope is set to zero: the mean is not a
        mode, and a slope would spoil the curvature along ridges.
        """
        at_theta = self._posterior.density.coefficients(theta)
        spans = slices_of(self._posterior.regressions)

        def made(posterior: LogPosterior) -> Anchor:
            expansion = expand(posterior.regressions, w)
            level = JointExpansion(
                tuple(
                    replace(part, w=at_theta[span], gradient=np.zeros_like(part.gradient))
                    for part, span in zip(expansion.concave().parts, spans, strict=True)
                )
            )
            objective = Objective(posterior, level).joint()
            anchor = _anchor(posterior, ModeResult(theta, theta, objective, level, None, 1.0))
            touching = zip(anchor.parts, expansion.parts, strict=True)
            parts = tuple(replace(part, expansion=around) for part, around in touching)
            return replace(anchor, parts=parts)

        return self._smoothed_twice(made)

    def _smoothed_twice(self, made: Callable[[LogPosterior], Anchor]) -> Anchor:
        """Return an anchor; if rows are not smooth, make it again, with rows smoothed around it."""
        anchor = made(self._posterior)
        if not any_non_smooth(self._posterior.regressions):
            return anchor
        return made(_smoothed(self._posterior, anchor))


def _check_scales(posterior: LogPosterior, found: ModeResult) -> None:
    """Refuse a scale of noise that a search has followed towards zero, and not to a mode.

    Raises
    ------
    UnsupportedModelError
        It names the scale.
    """
    why = why_scale_collapsed(posterior, found.theta)
    if why is not None and not found.predicted_gain < NEAR:
        raise UnsupportedModelError(f"no posterior mode found: {why}")


def _with_modes(
    posterior: LogPosterior, start: np.ndarray, strides: Sequence[int]
) -> tuple[LogPosterior, float]:
    """Return a search that keeps variables in which the density at first has no mode."""
    # Some transformed variables, such as ordered ones, are of this kind: they have no sd there, and
    # cannot be integrated out.
    effects = posterior.effects
    if not len(effects.integrated_out) or len(effects.diagonal):
        return posterior, 0.0
    objective = Objective(posterior, posterior.expand(start, strides).concave())
    kept = np.zeros(len(start), bool)
    kept[objective.without_mode(start)] = True
    for variable in posterior.layout.places:
        kept[variable] = kept[variable].any()
    integrated_out = effects.integrated_out[~kept[effects.integrated_out]]
    return posterior.integrating_out(integrated_out), share_of(posterior.regressions, strides)


def _integrated(
    posterior: LogPosterior,
    found: ModeResult,
    start: np.ndarray,
    strides: Sequence[int],
    tolerance: float,
) -> tuple[LogPosterior, ModeResult]:
    """Search again, with parameters integrated out whose joint density has no useful mode."""
    # These are effects about which rows say next to nothing, if the search has followed them and
    # their scale to zero. Or they are all parameters that change coefficients except scales of
    # noise, if the search has not ended.

    def again(places: np.ndarray) -> tuple[LogPosterior, ModeResult]:
        other = posterior.integrating_out(places)
        return other, find_mode(other, start, start, strides, tolerance, found.passes)

    density, outside = posterior.density, np.empty(0, np.int64)
    # The next search may follow others, as the scale of a second factor.
    while len(
        more := np.setdiff1d(collapsed(density, found.expansion, start, found.theta), outside)
    ):
        outside = np.union1d(outside, more)
        posterior, found = again(np.union1d(posterior.effects.integrated_out, outside))
    if found.predicted_gain > NEAR:
        # Scales of noise stay: given all others, effects may fit their rows exactly.
        scales = noise_scales(posterior, found.theta)
        moved = np.setdiff1d(moving(density, found.theta), scales)
        posterior, found = again(np.union1d(outside, moved))
    return posterior, found


def _anchor(posterior: LogPosterior, found: ModeResult, of_all_rows: bool = False) -> Anchor:
    """Return an anchor, with the Laplace approximation of the objective at a result's centre."""
    # For all rows, the posterior is refused if their sums are rounding errors. It is also refused
    # if coefficients have no finite derivatives at the centre: the logarithm of a rate that no row
    # looks up changes no density, and the mode may be at a rate of zero.
    density, expansion, centre = posterior.density, found.expansion, found.centre
    objective = found.objective.with_expansion(expansion)
    blocks = objective.precision_blocks(centre)
    if of_all_rows:
        lines = Lines.of(objective, centre, blocks, SMALL)
        check_digits(posterior.names, lines, expansion)
    geometry = with_slow_directions(
        objective.geometry_of(centre, blocks), lambda v: -objective.hessian_times(centre, v)
    )
    curvature = np.concatenate([part.information.diagonal() for part in expansion.parts])
    w_factor = coefficient_factor(density, geometry, curvature)
    if not np.all(np.isfinite(w_factor)):
        raise UnsupportedModelError(
            f"where the posterior has its mode, coefficients of {posterior.names} have no finite "
            "derivatives, as the logarithm of a rate or a scale that is zero. Give what these are "
            "made of priors of positive values, such as pm.Gamma, or leave out groups without rows"
        )
    spans = slices_of(posterior.regressions)
    parts = zip(expansion.parts, spans, strict=True)
    return Anchor(
        geometry, tuple(AnchorPart(w_factor[span], part) for part, span in parts), found.passes
    )


def _smoothed(posterior: LogPosterior, anchor: Anchor) -> LogPosterior:
    """Return the posterior with non-smooth rows smoothed as the posterior around an anchor does."""
    return replace(posterior, regressions=smoothed_around(posterior.regressions, anchor))


def _strides(regressions: Sequence[Regression]) -> list[list[int]]:
    """Return the strides of each regression's rows, on smaller subsamples first."""
    # Enough rows to determine the mode to about one posterior sd of the subsample.
    wanted = [max(4 * BLOCK, 100 * each.design.n_coefficients) for each in regressions]
    n_rows = [each.design.n_rows for each in regressions]
    if regressions[0].design.stored is not None:
        # Rows out of core: a sample that fits into memory, and all of them.
        strides = sorted({1, max(1, n_rows[0] // SAMPLE)}, reverse=True)
        return [[stride] * len(n_rows) for stride in strides]
    first = [max(1, n // m) for n, m in zip(n_rows, wanted, strict=True)]
    # At least two if rows are not smooth: the first determines the smoothing for the last.
    steps = max(math.ceil(math.log(max(first), GROWTH)), int(any_non_smooth(regressions)))
    return [first, *([round(s ** (1 - i / steps)) for s in first] for i in range(1, steps + 1))]


def _tolerance(n_parameters: int, is_tall: bool, is_last: bool) -> float:
    """Return the largest gain with which the last step of a stage may end."""
    if not is_last:
        return min(SUBSAMPLE_TOLERANCE * n_parameters, 0.5 * NEAR)
    return min(TALL_TOLERANCE * n_parameters, LARGEST_TOLERANCE) if is_tall else TOLERANCE


def _warn_of_many_coefficients(regressions: Sequence[Regression]) -> None:
    for regression in regressions:
        p = regression.design.n_coefficients
        if p > MANY_COEFFICIENTS and regression.design.format.written_out:
            log.warning(
                f"{regression.name!r} has {p:,} coefficients: the set-up decomposes matrices of "
                f"{8e-6 * p**2:,.0f} MB, and every transition reads "
                "one. Fewer columns, such as principal components, would serve Firefly better"
            )
