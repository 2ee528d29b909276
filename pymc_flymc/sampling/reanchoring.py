"""Anchors that move while a chain tunes: from the posterior's mode to where the chain is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pymc_flymc.anchor.effects import Objective, find_effects
from pymc_flymc.anchor.kinks import has_kinks, sharpened
from pymc_flymc.anchor.search import Anchor, anchor_at, laplace_anchor
from pymc_flymc.anchor.surrogate import Surrogate, surrogate_of
from pymc_flymc.bounds import Problem
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.passes import BLOCK, iterate_rows
from pymc_flymc.regression.regression import JointExpansion, Regression, expand, spans_of
from pymc_flymc.reporting import count, log
from pymc_flymc.sampling.chain import FireflyChain
from pymc_flymc.target.resampling import Resampling
from pymc_flymc.target.shared import SharedArray
from pymc_flymc.target.target import Target, TargetPart

__all__ = ["Anchors", "anchors_around", "same_anchors"]

#: What a new anchor must save: all but this share of the bright rows, and of the mean square of the
#: predictors' distance from where bounds touch. It costs two passes over the data.
SHARE = 0.5
#: Bright rows that cost no more than a transition costs anyway.
FEW_ROWS = 30.0


@dataclass
class Anchors:
    """Decides whether a chain needs another anchor, and builds targets at anchors.

    Attributes
    ----------
    target : Target
        The first one, at the anchor found before sampling. Its rows serve all others.
    w : ndarray, shape (P,)
        Where its bounds touch: coefficients of all likelihoods.
    names : tuple of str
        Names of the observed variables, one for each likelihood, as with what follows.
    y : tuple of SharedArray
    layout : Layout
    resampling : Resampling
    surrogate : tuple of ndarray and Surrogate, or None
        The last one that was compiled, and what it was compiled for.
    """

    target: Target
    w: np.ndarray
    names: tuple[str, ...]
    y: tuple[SharedArray, ...]
    layout: Layout
    resampling: Resampling
    surrogate: tuple[np.ndarray, Surrogate] | None = None

    @classmethod
    def of(
        cls, target: Target, problems: Sequence[Problem], layout: Layout, resampling: Resampling
    ) -> Anchors:
        """Keep what there is of problems beside their target; nothing of it is copied."""
        return cls(
            target,
            _touching(problem.anchor for problem in problems),
            tuple(problem.name for problem in problems),
            tuple(SharedArray(problem.y) for problem in problems),
            layout,
            resampling,
        )

    def better(
        self, chain: FireflyChain, draws: np.ndarray, bright: float
    ) -> tuple[tuple[Anchor, ...], Target] | None:
        """Return an anchor at the mean of a chain's draws, and its target, if it pays.

        The decision is made by counts and draws, never by clocks. Where the anchor is good it takes
        a sample of rows; bounds are built at the mean only if the draws keep away from where the
        bounds touch now.

        Parameters
        ----------
        draws : ndarray, shape (n, D)
            Unconstrained parameters of a tuning window.
        bright : float
            Mean number of bright rows in the window.
        """
        target = chain.target
        if not target.subsamples or not self._pays(bright, 0.0):
            return None
        w = np.stack([target.coefficients(theta, chain.statistics) for theta in draws])
        if not self._far(w, self.w if chain.anchors is None else _touching(chain.anchors)):
            return None
        anchors = self._anchors(chain, draws.mean(axis=0), w.mean(axis=0))
        moved = self.target_at(anchors)
        promised = sum(part.expected_bright for part in moved.parts)
        if not self._pays(bright, promised):
            return None
        log.info(
            f"a chain's anchor moves to the mean of {len(draws)} tuning draws: "
            f"{count(promised)} rows bright, instead of {count(bright)}"
        )
        return anchors, moved

    def target_at(self, anchors: Sequence[Anchor]) -> Target:
        """Build the target with the first one's bounds and kernel at another anchor."""
        problems = [Problem.of(*each) for each in zip(self._regressions(), anchors, strict=True)]
        return self.target.at(problems, self.resampling)

    def _anchors(self, chain: FireflyChain, theta: np.ndarray, w: np.ndarray) -> tuple[Anchor, ...]:
        if self.surrogate is None or not np.array_equal(self.surrogate[0], chain.others):
            others = chain.others.copy()
            self.surrogate = others, surrogate_of(self.target.graph, others)
        known = self.surrogate[1], self._regressions()
        if self.target.is_joint:
            # Joint moves stay where proposals are made: bounds touch a Newton step on, lest a chain
            # that is on its way to the posterior stop at each anchor.
            (near,) = anchor_at(*known, theta, self.layout)
            return anchor_at(*known, near.theta, self.layout)
        return anchors_around(*known, theta, w, self.layout)

    @staticmethod
    def _pays(bright: float, promised: float) -> bool:
        return FEW_ROWS + promised < SHARE * (FEW_ROWS + bright)

    def _far(self, w: np.ndarray, touching: np.ndarray) -> bool:
        """Whether draws w, shape (n, P), are nearer to their mean than to where bounds touch.

        By the mean square of the predictors' distance over a sample of rows, to which gaps of
        tangent bounds are in proportion. Draws of a chain that has moved little are near to one
        another wherever the posterior is: the distance of the means of either half tells.
        """
        half, away, spread = len(w) // 2, 0.0, 0.0
        regressions = self._regressions()
        for regression, span in zip(regressions, spans_of(regressions), strict=True):
            design, of_draws, at_anchor = regression.design, w[:, span], touching[span]
            k, width = design.n_predictors, design.width
            stride = max(1, design.n_rows // BLOCK)
            for _, x, _ in iterate_rows(design, at_anchor, stride):
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
            Regression(name, _design(rows, part), y.array, part.likelihood)
            for name, rows, part, y in zip(
                self.names,
                self.target.data.parts,
                self.target.parts,
                self.y,
                strict=True,
            )
        ]

    def __getstate__(self) -> dict[str, Any]:
        """Without what is compiled."""
        return self.__dict__ | {"surrogate": None}


def _design(rows: Any, part: TargetPart) -> Design:
    sparse = None
    if rows.indptr.size:
        shape = len(rows.X), rows.n_sparse
        sparse = csr_array((rows.values, rows.indices, rows.indptr), shape=shape)
    return Design(rows.X, rows.offset, bool(rows.intercept), len(part.likelihood.nuisances), sparse)


def _touching(anchors: Iterable[Anchor]) -> np.ndarray:
    """Coefficients of all likelihoods at which bounds touch, shape (P,)."""
    return np.concatenate([anchor.w for anchor in anchors])


def anchors_around(
    surrogate: Surrogate,
    regressions: Sequence[Regression],
    theta: np.ndarray,
    w: np.ndarray,
    layout: Layout,
) -> tuple[Anchor, ...]:
    """Anchors at means of draws: theta, shape (D,), and the coefficients w, shape (P,).

    Where w(theta) is not linear, w is not the coefficients at theta. Of the log-likelihood the
    curvature alone is taken over to the latter, as if there were no slope left: the mean is no
    mode, and a slope would spoil the curvature along ridges.
    """
    found = find_effects(surrogate, [each.design for each in regressions], layout)
    effects = replace(found, positions=np.empty(0, np.int64))
    at_theta, spans = surrogate.coefficients(theta), spans_of(regressions)

    def anchors_of(regressions: Sequence[Regression]) -> tuple[Anchor, ...]:
        expansion = expand(regressions, w).concave()
        level = JointExpansion(
            tuple(
                replace(part, w=at_theta[span], gradient=np.zeros_like(part.gradient))
                for part, span in zip(expansion.parts, spans, strict=True)
            )
        )
        objective = Objective(surrogate, level.pack(), effects)
        anchors = laplace_anchor(surrogate, regressions, objective, level, theta, effects, 1.0)
        return tuple(replace(each, w=w[span]) for each, span in zip(anchors, spans, strict=True))

    anchors = anchors_of(regressions)
    return anchors_of(sharpened(regressions, anchors)) if has_kinks(regressions) else anchors


def same_anchors(a: Sequence[Anchor] | None, b: Sequence[Anchor] | None) -> bool:
    """Whether the anchors of two chains are the same, or both missing."""
    if a is None or b is None:
        return a is b
    same_theta = np.array_equal(a[0].theta, b[0].theta)
    return same_theta and np.array_equal(_touching(a), _touching(b))
