"""Base of quadratic bounds on the softmax likelihood."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from pymc_flymc.bounds.bound import Problem, check_slack
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.forms import SOFTMAX, form_of
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.weighted import unweighted, weights_of
from pymc_flymc.regression.matrices import RowMatrix
from pymc_flymc.regression.passes import iterate_rows
from pymc_flymc.settings import check

#: Draws from the Laplace approximation by which the expected gap of each row is estimated.
LAPLACE_DRAWS = 16


class Columns(NamedTuple):
    """Places of the constants of a row: slack, and the first of the predictors where it touches."""

    slack: int = 0
    touch: int = 1

    def weight(self, n_predictors: int) -> int:
        """Return the place of the weight, where a family has one."""
        return self.touch + n_predictors


COLUMNS = Columns()


class SoftmaxBound(ABC):
    """A bound that touches at some predictors, and has at least the curvature of log sum exp.

    The constants of a row are its slack, the predictors at which the bound touches, and its weight.

    Attributes
    ----------
    tuned : bool
        Whether bounds touch at the anchor, or at equal probabilities of all classes.
    slack : float
        Slack in units of a row's expected gap: every log B_n is lowered by this much.
    """

    n_shared = 0

    def __init__(self, *, tuned: bool = True, slack: float = 1.0) -> None:
        name = type(self).__name__
        check(isinstance(tuned, bool | np.bool_), f"{name}: tuned", "True or False", tuned)
        self.tuned = bool(tuned)
        self.slack = check_slack(name, slack)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is a softmax."""
        return form_of(unweighted(likelihood)) == SOFTMAX

    def n_constants(self, likelihood: Likelihood) -> int:
        """Slack, the predictors at which the bound touches, and weight."""
        return COLUMNS.weight(likelihood.n_predictors) + len(likelihood.row_data)

    @abstractmethod
    def curvature(self, touch: np.ndarray) -> np.ndarray:
        """Curvatures A of bounds ``log B = ... - u' A u / 2``, shape (K - 1, K - 1, n).

        They touch at `touch`, shape (K - 1, n), for K classes, the first one of reference.
        """

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Bright rows expected over the Laplace approximation, from every stride-th row.

        The gap is approximated by a quadratic: half the difference of the curvatures. A bound that
        does not touch at the anchor has more bright rows.
        """
        total, shifts = 0.0, _laplace_shifts(problem)
        for _, x, eta, y in iterate_rows(problem.design, problem.y, problem.own.w, stride):
            second = problem.derivatives(eta, y).second
            weight = weights_of(problem.likelihood, y)[1]
            excess = weight * self.curvature(_touch(self, eta)) + second
            u = x @ shifts
            gaps = 0.5 * np.sum(u * np.einsum("ijn,jns->ins", excess, u), axis=0)
            gaps = np.maximum(gaps, 0.0)
            slack = self.slack * gaps.mean(axis=1, keepdims=True)
            total -= float(np.expm1(-(gaps + slack)).mean(axis=1).sum())
        return total * stride


def expand_rows(
    bound: SoftmaxBound,
    problem: Problem,
    log_factor: NativeFunction,
    constants: np.ndarray,
    bright: np.ndarray,
) -> Iterator[tuple[RowMatrix, np.ndarray, np.ndarray, np.ndarray]]:
    """Fill the rows' constants and brightness; yield the terms of the collapsed sum.

    Yields
    ------
    x : RowMatrix, shape (n, width)
        Rows of the design; valid until the next block.
    value : ndarray, shape (n,)
        Log bounds at the anchor.
    slope : ndarray, shape (K - 1, n)
        Their gradients there.
    curvature : ndarray, shape (K - 1, K - 1, n)
    """
    design = problem.design
    shifts = _laplace_shifts(problem)
    for rows, x, eta, y in iterate_rows(design, problem.y, problem.own.w):
        n = len(x)
        touch = _touch(bound, eta)
        weight = weights_of(problem.likelihood, y)[1]
        part = np.column_stack([np.zeros(n), touch.T, *(y.T[1:] if y.ndim > 1 else [])])
        moved = np.ascontiguousarray((eta[:, :, None] + x @ shifts).transpose(2, 1, 0))
        gaps = np.empty((LAPLACE_DRAWS, n))
        for i, away in enumerate(moved):
            log_factor(away, part, np.empty(0), gaps[i])
        gaps = np.logaddexp(0.0, gaps)  # log odds = log(exp(gap) - 1)
        # A bound that touches elsewhere has a gap at the anchor. It needs no slack for that part.
        here = np.empty(n)
        log_factor(np.ascontiguousarray(eta.T), part, np.empty(0), here)
        spread = np.maximum(gaps.mean(axis=0) - np.logaddexp(0.0, here), 0.0)
        part[:, COLUMNS.slack] = slack = bound.slack * spread
        bright[rows] = -np.expm1(-(gaps + slack)).mean(axis=0)
        constants[rows] = part
        value, slope, *_ = problem.derivatives(touch, y)
        curvature, away = weight * bound.curvature(touch), eta - touch
        pull = np.einsum("ijn,jn->in", curvature, away)
        value = value + np.sum((slope - 0.5 * pull) * away, axis=0) - slack
        yield x, value, slope - pull, curvature


def touch_of(constants: Any, n_predictors: int) -> list[Any]:
    """Graphs of the predictors at which rows' bounds touch."""
    return [constants[:, COLUMNS.touch + i] for i in range(n_predictors)]


def weighted_gap(gap: Any, likelihood: Likelihood, constants: Any) -> Any:
    """Graph of the gap of rows without slack times their weights, plus their slack."""
    if likelihood.row_data:
        gap = gap * constants[:, COLUMNS.weight(likelihood.n_predictors)]
    return gap + constants[:, COLUMNS.slack]


def _touch(bound: SoftmaxBound, eta: np.ndarray) -> np.ndarray:
    return eta if bound.tuned else np.zeros_like(eta)


def _laplace_shifts(problem: Problem) -> np.ndarray:
    """Draws of the coefficients' distance from the anchor, shape (K - 1, width, LAPLACE_DRAWS)."""
    factor, design = problem.own.w_factor, problem.design
    rng = np.random.default_rng(20141104)
    draws = factor @ rng.standard_normal((factor.shape[1], LAPLACE_DRAWS))
    return draws.reshape(design.n_predictors, design.width, LAPLACE_DRAWS)
