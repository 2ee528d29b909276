"""The search for an anchor: the posterior mode, found in a few passes over the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.anchor.climb import TOLERANCE, Summit, climb
from pymc_flymc.anchor.effects import moving
from pymc_flymc.anchor.kinks import has_kinks, sharpened
from pymc_flymc.anchor.landscape import Landscape
from pymc_flymc.anchor.proper import check_bounded, check_proper
from pymc_flymc.anchor.slow_directions import with_slow_directions
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.anchor.trust_region import NEAR
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.passes import BLOCK
from pymc_flymc.regression.regression import JointExpansion, Regression, expand, spans_of
from pymc_flymc.reporting import doing, log

__all__ = ["AnchorSearch"]

#: After subsamples a pass over all rows is worth more than that: this much for each parameter, and
#: in all, so that bounds touch within one sd of the mode, and the mean square of the draws'
#: distance from there is larger by one per cent. The step is still made, without a pass, to the
#: centre of the Laplace approximation.
TALL_TOLERANCE, LARGEST_TOLERANCE = 0.005, 0.5
#: The modes of a subsample and of all rows differ by as much, for each parameter, anyway.
SUBSAMPLE_TOLERANCE = 0.25
#: A subsample has at most so many times fewer rows than the next.
GROWTH = 12
#: Rows of a sample of those that are out of core.
SAMPLE = 1 << 18
#: Coefficients beyond which the time that their matrices take is worth a warning.
MANY_COEFFICIENTS = 1000
#: Columns that stand for the Laplace covariance of many coefficients: variances come out to a
#: quarter of their size, and steer no more than the slack of bounds.
SKETCH = 32


class AnchorSearch:
    """Finds an anchor for the likelihoods of a model, or makes one at a given point.

    Parameters
    ----------
    surrogate : Surrogate
        The rest of the model.
    regressions : sequence of Regression
    layout : Layout
        Names of the parameters, for messages.
    """

    def __init__(
        self, surrogate: Surrogate, regressions: Sequence[Regression], layout: Layout
    ) -> None:
        self._landscape = Landscape.of(surrogate, regressions, layout)

    @doing("searching for the posterior mode")
    def find(self, start: np.ndarray) -> Anchor:
        """Find the mode by damped Newton steps, on a subsample first.

        Parameters
        ----------
        start : ndarray, shape (D,)

        Raises
        ------
        ValueError
            If the log density at the start is not finite, or if the posterior has no mode that can
            be found, as with separable data under a flat prior.
        """
        landscape = self._landscape
        _warn_of_many_coefficients(landscape.regressions)
        theta = start = np.asarray(start, dtype=np.float64)
        passes, stages = 0.0, _strides(landscape.regressions)
        for i, strides in enumerate(stages):
            tolerance = _tolerance(len(theta), i, max(strides) == 1)
            found = climb(landscape, theta, start, strides, tolerance, passes)
            check_bounded(landscape, found.theta, found.expansion)
            # Unbounded, as where the common scale of some coefficients goes to zero with them:
            # begin again, with all coefficients that have no part in others' scales integrated out.
            if i == 0 and not len(landscape.effects.wide) and found.promise > NEAR:
                free = moving(landscape.surrogate, found.theta)
                effects = replace(landscape.effects, integrated_out=free)
                landscape = replace(landscape, effects=effects)
                found = climb(landscape, start, start, strides, tolerance, found.passes)
            theta, passes = found.centre, found.passes
            if i == len(stages) - 2 and has_kinks(landscape.regressions):
                landscape = _sharpened(landscape, _anchor(landscape, found))
        check_proper(landscape, found.theta, found.expansion, found.previous)
        return _anchor(landscape, found)

    def at(self, theta: np.ndarray) -> Anchor:
        """Make an anchor at a point given by the user, shape (D,).

        Bounds touch there; proposals are centred at the mode of the expansion around it.

        Raises
        ------
        ValueError
            If the posterior has no integral because of a flat prior.
        """

        def made(landscape: Landscape) -> Anchor:
            expansion = landscape.expand(theta)
            landscape.height(theta, expansion)
            check_proper(landscape, theta, expansion, None)
            centre, objective = landscape.maximise(landscape.objective(expansion.concave()), theta)
            return _anchor(landscape, Summit(theta, centre, objective, expansion, None, 1.0))

        return self._with_kinks(made)

    def around(self, theta: np.ndarray, w: np.ndarray) -> Anchor:
        """Make an anchor at means of draws: theta, shape (D,), and the coefficients w, shape (P,).

        Where w(theta) is not linear, w is not the coefficients at theta. Of the log-likelihood the
        curvature alone is taken over to the latter, as if there were no slope left: the mean is no
        mode, and a slope would spoil the curvature along ridges.
        """
        at_theta = self._landscape.surrogate.coefficients(theta)
        spans = spans_of(self._landscape.regressions)

        def made(landscape: Landscape) -> Anchor:
            expansion = expand(landscape.regressions, w)
            level = JointExpansion(
                tuple(
                    replace(part, w=at_theta[span], gradient=np.zeros_like(part.gradient))
                    for part, span in zip(expansion.concave().parts, spans, strict=True)
                )
            )
            objective = landscape.objective(level).joint()
            anchor = _anchor(landscape, Summit(theta, theta, objective, level, None, 1.0))
            touching = zip(anchor.parts, expansion.parts, strict=True)
            parts = tuple(replace(part, expansion=around) for part, around in touching)
            return replace(anchor, parts=parts)

        return self._with_kinks(made)

    def _with_kinks(self, made: Callable[[Landscape], Anchor]) -> Anchor:
        """Return an anchor made where kinks are as sharp as an anchor made before says."""
        anchor = made(self._landscape)
        if not has_kinks(self._landscape.regressions):
            return anchor
        return made(_sharpened(self._landscape, anchor))


def _anchor(landscape: Landscape, summit: Summit) -> Anchor:
    """Make an anchor, with the Laplace approximation of the objective at a summit's centre."""
    surrogate, expansion = landscape.surrogate, summit.expansion
    objective = summit.objective.with_statistics(expansion.pack())
    geometry = with_slow_directions(
        objective.geometry(summit.centre),
        lambda v: -objective.hessian_times(summit.centre, v),
    )
    if len(geometry.wide):
        rng = np.random.default_rng(20141104)
        draws = rng.standard_normal((SKETCH, len(summit.centre))) / np.sqrt(SKETCH)
        # Filled column by column: with effects by the hundred thousand a copy of it is large.
        w_factor = np.empty((surrogate.n_coefficients, SKETCH))
        for i, v in enumerate(draws):
            w_factor[:, i] = surrogate.pushforward(summit.centre, geometry.spread(v))
    else:
        w_factor = surrogate.jacobian(summit.centre) @ geometry.factor
    spans = spans_of(landscape.regressions)
    parts = zip(expansion.parts, spans, strict=True)
    return Anchor(
        geometry,
        tuple(AnchorPart(w_factor[span], part) for part, span in parts),
        summit.passes,
    )


def _sharpened(landscape: Landscape, anchor: Anchor) -> Landscape:
    """Round kinks off as the posterior around an anchor does."""
    return replace(landscape, regressions=sharpened(landscape.regressions, anchor))


def _strides(regressions: Sequence[Regression]) -> list[list[int]]:
    """Return the strides of each regression's rows, on smaller subsamples first."""
    # Rows that pin the mode down to about one posterior sd of the subsample.
    wanted = [max(4 * BLOCK, 100 * each.design.n_coefficients) for each in regressions]
    n_rows = [each.design.n_rows for each in regressions]
    if regressions[0].design.stored is not None:
        # Rows out of core: a sample that fits into memory, and all of them.
        return [[stride] for stride in sorted({1, max(1, n_rows[0] // SAMPLE)}, reverse=True)]
    first = [max(1, n // m) for n, m in zip(n_rows, wanted, strict=True)]
    # At least two if there are kinks, which are sharpened for the last one.
    steps = max(math.ceil(math.log(max(first), GROWTH)), int(has_kinks(regressions)))
    return [first, *([round(s ** (1 - i / steps)) for s in first] for i in range(1, steps + 1))]


def _tolerance(n_parameters: int, stage: int, is_last: bool) -> float:
    """Return what the last step of a stage may gain at most."""
    if not is_last:
        return min(SUBSAMPLE_TOLERANCE * n_parameters, 0.5 * NEAR)
    return min(TALL_TOLERANCE * n_parameters, LARGEST_TOLERANCE) if stage else TOLERANCE


def _warn_of_many_coefficients(regressions: Sequence[Regression]) -> None:
    for regression in regressions:
        p = regression.design.n_coefficients
        if p > MANY_COEFFICIENTS and not regression.design.structured:
            log.warning(
                f"{regression.name!r} has {p:,} coefficients: the set-up decomposes matrices of "
                f"{8e-6 * p**2:,.0f} MB, and every transition reads "
                "one. Fewer columns, such as principal components, would serve Firefly better"
            )
