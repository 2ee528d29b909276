"""Anchors that move while a chain tunes: from the posterior's mode to where the chain is."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pymc_flymc.anchor import Anchor, anchor_at, laplace_anchor
from pymc_flymc.bounds import Problem
from pymc_flymc.chain import FireflyChain
from pymc_flymc.density import Layout, Surrogate
from pymc_flymc.design import Design
from pymc_flymc.effects import Objective, find_effects
from pymc_flymc.passes import BLOCK, RowDerivatives, iterate_rows, likelihood_pass
from pymc_flymc.resampling import Resampling
from pymc_flymc.shared import SharedArray
from pymc_flymc.target import Target

__all__ = ["Anchors", "anchor_around", "same_anchor"]

_log = logging.getLogger("pymc.flymc")

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
        Where its bounds touch.
    y : SharedArray
    derivatives : RowDerivatives or None
        Compiled, and built again after a journey to another process.
    layout : Layout
    resampling : Resampling
    surrogate : tuple of ndarray and Surrogate, or None
        The last one that was compiled, and what it was compiled for.
    """

    target: Target
    w: np.ndarray
    y: SharedArray
    derivatives: RowDerivatives | None
    layout: Layout
    resampling: Resampling
    surrogate: tuple[np.ndarray, Surrogate] | None = None

    @classmethod
    def of(
        cls, target: Target, problem: Problem, layout: Layout, resampling: Resampling
    ) -> Anchors:
        """Keep what there is of a problem beside its target; nothing of it is copied."""
        y = SharedArray(problem.y)
        return cls(target, problem.anchor.w, y, problem.derivatives, layout, resampling)

    def better(
        self, chain: FireflyChain, draws: np.ndarray, bright: float
    ) -> tuple[Anchor, Target] | None:
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
        if target.bound is None or not self._pays(bright, 0.0):
            return None
        n = self.target.graph.n_coefficients
        w = np.empty((len(draws), n + target.n_shared))
        for theta, coefficients in zip(draws, w, strict=True):
            target.density(theta, chain.statistics, coefficients)
        w = w[:, :n]
        touching = self.w if chain.anchor is None else chain.anchor.w
        if not self._far(w, touching):
            return None
        anchor = self._anchor(chain, draws.mean(axis=0), w.mean(axis=0))
        moved = self.target_at(anchor)
        if not self._pays(bright, moved.expected_bright):
            return None
        _log.info(
            f"Firefly: anchor moved to the mean of {len(draws)} tuning draws: about "
            f"{moved.expected_bright:,.1f} rows bright, instead of {bright:,.1f}"
        )
        return anchor, moved

    def target_at(self, anchor: Anchor) -> Target:
        """Build the target with the first one's bound and kernel at another anchor."""
        return self.target.at(self._problem(anchor), self.resampling)

    def _anchor(self, chain: FireflyChain, theta: np.ndarray, w: np.ndarray) -> Anchor:
        if self.surrogate is None or not np.array_equal(self.surrogate[0], chain.others):
            others = chain.others.copy()
            self.surrogate = others, Surrogate(self.target.graph, others)
        problem = self._problem()
        known = self.surrogate[1], problem.design, problem.y, problem.derivatives
        if self.target.is_joint:
            # Joint moves stay where proposals are made: bounds touch a Newton step on, lest a chain
            # that is on its way to the posterior stop at each anchor.
            return anchor_at(*known, anchor_at(*known, theta, self.layout).theta, self.layout)
        return anchor_around(*known, theta, w, self.layout)

    @staticmethod
    def _pays(bright: float, promised: float) -> bool:
        return FEW_ROWS + promised < SHARE * (FEW_ROWS + bright)

    def _far(self, w: np.ndarray, touching: np.ndarray) -> bool:
        """Whether draws w, shape (n, P), are nearer to their mean than to where bounds touch.

        By the mean square of the predictors' distance over a sample of rows, to which gaps of
        tangent bounds are in proportion. Draws of a chain that has moved little are near to one
        another wherever the posterior is: the distance of the means of either half tells.
        """
        design, half = self._design(), len(w) // 2
        away, spread = 0.0, 0.0
        k, width = design.n_predictors, design.width
        for _, x, _ in iterate_rows(design, touching, max(1, design.n_rows // BLOCK)):
            for i in range(k):
                at = slice(i * width, (i + 1) * width)
                u = x @ (w[:, at] - touching[at]).T
                away += float(np.sum(u**2))
                halves = u[:, :half].mean(axis=1), u[:, half:].mean(axis=1)
                spread += float(np.sum((u - u.mean(axis=1, keepdims=True)) ** 2))
                spread += len(w) * float(np.sum((halves[0] - halves[1]) ** 2))
        return spread < SHARE * away

    def _design(self) -> Design:
        """Return the design in the memory of the first target's rows."""
        rows: Any = self.target.data.rows
        sparse = None
        if rows.indptr.size:
            shape = len(rows.X), rows.n_sparse
            sparse = csr_array((rows.values, rows.indices, rows.indptr), shape=shape)
        n_nuisances = len(self.target.likelihood.nuisances)
        return Design(rows.X, rows.offset, bool(rows.intercept), n_nuisances, sparse)

    def _problem(self, anchor: Any = None) -> Problem:
        likelihood = self.target.likelihood
        if self.derivatives is None:
            self.derivatives = RowDerivatives(likelihood)
        return Problem(self._design(), self.y.array, likelihood, self.derivatives, anchor)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is compiled."""
        return self.__dict__ | {"derivatives": None, "surrogate": None}


def anchor_around(
    surrogate: Surrogate,
    design: Design,
    y: np.ndarray,
    derivatives: RowDerivatives,
    theta: np.ndarray,
    w: np.ndarray,
    layout: Layout,
) -> Anchor:
    """Anchor at means of draws: theta, shape (D,), and the coefficients w, shape (P,).

    Where w(theta) is not linear, w is not the coefficients at theta. Of the log-likelihood the
    curvature alone is taken over to the latter, as if there were no slope left: the mean is no
    mode, and a slope would spoil the curvature along ridges.
    """
    found = find_effects(surrogate, design, layout)
    effects = replace(found, positions=np.empty(0, np.int64))
    expansion = likelihood_pass(design, y, derivatives, w).concave()
    level = replace(
        expansion, w=surrogate.coefficients(theta), gradient=np.zeros_like(expansion.gradient)
    )
    objective = Objective(surrogate, level.pack(), effects)
    return replace(laplace_anchor(surrogate, objective, level, theta, effects, 1.0), w=w)


def same_anchor(a: Anchor | None, b: Anchor | None) -> bool:
    """Whether two anchors are one, or both missing."""
    if a is None or b is None:
        return a is b
    return np.array_equal(a.w, b.w) and np.array_equal(a.theta, b.theta)
