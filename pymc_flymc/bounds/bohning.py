"""Boehning's bound on the softmax likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.bounds.base import Preparation, Problem, check_slack
from pymc_flymc.likelihoods import Likelihood, Softmax
from pymc_flymc.likelihoods.softmax import log_sum_exp
from pymc_flymc.native import NativeFunction
from pymc_flymc.passes import iterate_rows

__all__ = ["Bohning"]

#: Draws from the Laplace approximation by which the expected gap of each row is estimated.
LAPLACE_DRAWS = 16


class Bohning:
    r"""Quadratic lower bound on the softmax log-likelihood, tight at the anchor.

    The second-order expansion at the anchor, with the curvature replaced by
    :math:`A = \frac12 (I - 1 1^\top / K)`, which is nowhere exceeded (Böhning 1992). As A is the
    same for all rows, the sum over rows needs :math:`\sum_n x_n x_n^\top` only, and no matrix of
    the size of all coefficients.

    Parameters
    ----------
    tuned : bool, default True
        Whether each row's bound touches at the anchor, or at equal probabilities of all classes.
    slack : float, default 1
        Lowers each row's log bound by `slack` times the gap expected over the posterior; see
        `JaakkolaJordan`.

    Raises
    ------
    ValueError
        If `slack` is negative or not finite.

    References
    ----------
    Böhning, D. (1992). Multinomial logistic regression algorithm. Annals of the Institute of
    Statistical Mathematics 44, 197-200.
    """

    name = "Boehning"
    n_shared = 0

    def __init__(self, *, tuned: bool = True, slack: float = 1.0) -> None:
        self.tuned = bool(tuned)
        self.slack = check_slack("Bohning", slack)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is a softmax."""
        return isinstance(likelihood, Softmax)

    def n_constants(self, likelihood: Likelihood) -> int:
        """Label, slack, and the predictors at which the bound touches."""
        return 2 + likelihood.n_predictors

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data.

        The statistics are a constant, the centre (K, P), the gradient there (K, P), and
        sum_n x_n x_n', shape (P, P).
        """
        design, anchor = problem.design, problem.anchor
        k, width = design.n_predictors, design.width
        rng = np.random.default_rng(20141104)
        draws = anchor.w_factor @ rng.standard_normal((anchor.w_factor.shape[1], LAPLACE_DRAWS))
        shifts = draws.reshape(k, width, LAPLACE_DRAWS)
        constants = np.empty((design.n_rows, 2 + k))
        bright = np.empty(design.n_rows, np.float32)
        constant, gradient, square = 0.0, np.zeros((k, width)), np.zeros((width, width))
        for rows, x, eta in iterate_rows(design, anchor.w):
            n, y = len(x), problem.y[rows]
            touch = eta if self.tuned else np.zeros_like(eta)
            part = np.column_stack([y, np.zeros(n), touch.T])
            moved = np.ascontiguousarray((eta[:, :, None] + x @ shifts).transpose(2, 1, 0))
            gaps = np.empty((LAPLACE_DRAWS, n))
            for i, away in enumerate(moved):
                log_factor(away, part, np.empty(0), gaps[i])
            gaps = np.logaddexp(0.0, gaps)  # log odds = log(exp(gap) - 1)
            # A row whose bound touches elsewhere has a gap at the anchor, too: no wall there.
            here = np.empty(n)
            log_factor(np.ascontiguousarray(eta.T), part, np.empty(0), here)
            spread = np.maximum(gaps.mean(axis=0) - np.logaddexp(0.0, here), 0.0)
            part[:, 1] = slack = self.slack * spread
            bright[rows] = -np.expm1(-(gaps + slack)).mean(axis=0)
            constants[rows] = part
            value, slope = _expansion(touch, y)
            away = eta - touch
            value += np.sum(slope * away, axis=0) - 0.5 * _form(away) - slack
            constant += float(value.sum())
            gradient += (slope - 0.5 * (away - away.mean(axis=0))) @ x
            square += x.T @ x
        packed = np.concatenate([[constant], anchor.w, gradient.ravel(), square.ravel()])
        return Preparation(packed, constants, bright)

    def collapsed(
        self,
        likelihood: Likelihood,
        w: TensorVariable,
        statistics: TensorVariable,
        n_coefficients: int,
    ) -> tuple[TensorVariable, TensorVariable]:
        """Graph of the collapsed sum; the rows share nothing."""
        k, size = likelihood.n_predictors, n_coefficients
        width = size // k
        u: Any = (w - statistics[1 : 1 + size]).reshape((k, width))
        gradient = statistics[1 + size : 1 + 2 * size].reshape((k, width))
        start = 1 + 2 * size
        square = statistics[start : start + width * width].reshape((width, width))
        product = u @ square
        form = pt.sum(u * product) - pt.sum(u.sum(axis=0) * product.sum(axis=0)) / k
        return statistics[0] + pt.sum(gradient * u) - 0.25 * form, pt.zeros((0,))

    def gap(
        self,
        likelihood: Likelihood,
        arguments: Sequence[TensorVariable],
        constants: TensorVariable,
        shared: TensorVariable,
    ) -> TensorVariable:
        """Graph of the gap.

        The label cancels: what remains is log sum exp, expanded, and a quadratic form.
        """
        k = len(arguments)
        touch = [constants[:, 2 + i] for i in range(k)]
        u = [eta - at for eta, at in zip(arguments, touch, strict=True)]
        mean = sum(u[1:], u[0]) / k
        # With u centred, which changes neither side, log sum exp p exp(u) is small where u is.
        log_total = log_sum_exp(touch)
        weights = [pt.exp(at - log_total) for at in touch]
        centred = [each - mean for each in u]
        linear = sum((p * c for p, c in zip(weights, centred, strict=True)), pt.zeros_like(mean))
        squares = sum((pt.sqr(c) for c in centred), pt.zeros_like(mean))
        growth = log_sum_exp([at - log_total + c for at, c in zip(touch, centred, strict=True)])
        return 0.25 * squares + linear - growth + constants[:, 1]


def _expansion(eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-likelihoods (n,) and their gradients (K, n) in the predictors, shape (K, n)."""
    log_total = np.logaddexp.reduce(eta, axis=0)
    slope = -np.exp(eta - log_total)
    each = np.arange(eta.shape[1])
    slope[y, each] += 1.0
    return eta[y, each] - log_total, slope


def _form(u: np.ndarray) -> np.ndarray:
    """Quadratic form u' A u of each column of u, shape (K, n)."""
    return 0.5 * np.sum((u - u.mean(axis=0)) ** 2, axis=0)
