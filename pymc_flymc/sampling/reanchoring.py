"""Anchors that move while a chain tunes: from the posterior's mode to where the chain is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_flymc.anchor.anchor import Anchor
from pymc_flymc.anchor.expanded_density import expanded_density
from pymc_flymc.anchor.mode_finding import ModeFinder
from pymc_flymc.bounds import Problem
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.matrices import BLOCK
from pymc_flymc.regression.passes import iterate_rows
from pymc_flymc.regression.regression import Regression, slices_of
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.data import SharedArray, design_of
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.target import Target, target_at
from pymc_flymc.threads import reading_lock

#: A new anchor costs two passes over the data. It must leave less than this share of the bright
#: rows, and of the mean square of the predictors' distance from where bounds touch.
SHARE = 0.5
#: Bright rows that cost no more than a transition costs anyway.
FEW_ROWS = 30.0


@dataclass(frozen=True)
class Anchors:
    """Decides whether a chain needs another anchor, and builds targets at anchors.

    `target`: the first one, at the anchor found before sampling. Its rows serve all others. `w`
    (P,): where its bounds touch: coefficients of all likelihoods. `names`: names of the observed
    variables, one for each likelihood, as with what follows.
    """

    target: Target
    w: np.ndarray
    names: tuple[str, ...]
    y: tuple[SharedArray, ...]
    layout: Layout
    resampling: Resampling

    @classmethod
    def of(
        cls, target: Target, problems: Sequence[Problem], layout: Layout, resampling: Resampling
    ) -> Anchors:
        """Keep what problems have beside their target, without copies."""
        return cls(
            target,
            problems[0].anchor.w,
            tuple(problem.name for problem in problems),
            tuple(SharedArray(problem.y) for problem in problems),
            layout,
            resampling,
        )

    def better(
        self, chain: FireflyChain, draws: np.ndarray, bright: float
    ) -> tuple[Anchor, Target] | None:
        """Return an anchor at the mean of a chain's draws, and its target, if it pays.

        Counts and draws decide, never clocks. If the anchor is good, that takes a sample of rows
        only: bounds are built at the mean only if the draws keep away from where the bounds touch
        now.

        `draws` (n, D): unconstrained parameters of a tuning window. `bright`: mean number of bright
        rows in the window.
        """
        target = chain.target
        if not target.subsamples or not self._pays(bright, 0.0):
            return None
        w = np.stack([target.coefficients(theta, chain.statistics) for theta in draws])
        if not self._keep_away(w, self.w if chain.anchor is None else chain.anchor.w):
            return None
        try:
            anchor = self._anchor(chain, draws.mean(axis=0), w.mean(axis=0))
        except Exception:
            # Far out in a tail there may be no mode to expand, or a graph may raise an error, which
            # may be of a user's own type. The chain goes on with the anchor that it has.
            return None
        moved = self.target_at(anchor)
        expected = moved.expected_bright
        if not self._pays(bright, expected):
            return None
        log.info(
            f"a chain's anchor moves to the mean of {len(draws)} tuning draws: "
            f"{count(expected)} rows bright, instead of {count(bright)}"
        )
        return anchor, moved

    @reading_lock.held()
    def target_at(self, anchor: Anchor) -> Target:
        """Build the target with the first one's bounds and kernel at another anchor."""
        return target_at(self.target, Problem.of(self._regressions(), anchor), self.resampling)

    @reading_lock.held()
    def _anchor(self, chain: FireflyChain, theta: np.ndarray, w: np.ndarray) -> Anchor:
        density = expanded_density(self.target.graph, chain.others.copy())
        finder = ModeFinder(density, self._regressions(), self.layout)
        if not self.target.spec.fresh:
            return finder.around(theta, w)
        # Chains of joint moves stay where proposals are made. So bounds touch one Newton step
        # further on: otherwise a chain on its way to the posterior would stop at each anchor.
        return finder.at(finder.at(theta).theta)

    @staticmethod
    def _pays(bright: float, expected: float) -> bool:
        return FEW_ROWS + expected < SHARE * (FEW_ROWS + bright)

    def _keep_away(self, w: np.ndarray, touching: np.ndarray) -> bool:
        """Whether draws w, shape (n, P), are nearer to their mean than to where bounds touch.

        Distance is the mean square over predictors of a sample of rows, to which gaps of tangent
        bounds are in proportion. Draws of a chain that moves little are close to one another even
        far from the posterior: the distance between the means of both halves is added for that.
        """
        half, away, spread = len(w) // 2, 0.0, 0.0
        regressions = self._regressions()
        for regression, span in zip(regressions, slices_of(regressions), strict=True):
            design, of_draws, at_anchor = regression.design, w[:, span], touching[span]
            k, width = design.n_predictors, design.width
            stride = max(1, design.n_rows // BLOCK)
            for _, x, *_ in iterate_rows(design, regression.y, at_anchor, stride):
                for i in range(k):
                    at = slice(i * width, (i + 1) * width)
                    u = x @ (of_draws[:, at] - at_anchor[at]).T
                    away += stride * float(np.sum(u**2))
                    halves = u[:, :half].mean(axis=1), u[:, half:].mean(axis=1)
                    spread += stride * float(np.sum((u - u.mean(axis=1, keepdims=True)) ** 2))
                    spread += stride * len(w) * float(np.sum((halves[0] - halves[1]) ** 2))
        return spread < SHARE * away

    def _regressions(self) -> list[Regression]:
        """Return the regressions, their designs in the memory of the first target's rows."""
        return [
            Regression(name, design_of(rows), y.array, part.likelihood)
            for name, rows, part, y in zip(
                self.names, self.target.data.parts, self.target.parts, self.y, strict=True
            )
        ]
