"""Quadratic bounds on the softmax likelihood: Boehning's, and Jebara and Choromanska's."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem, check_slack
from pymc_flymc.bounds.jaakkola_jordan import OneQuadratic
from pymc_flymc.errors import check
from pymc_flymc.graphs.collapsed_ops import Quadratic
from pymc_flymc.kernels.layout import quadratic_places
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import SOFTMAX, Likelihood, form_of
from pymc_flymc.likelihoods.softmax import log_sum_exp, with_reference
from pymc_flymc.likelihoods.weighted import unweighted, weights_of
from pymc_flymc.regression.expansion import QuadraticStatistics
from pymc_flymc.regression.matrices import LARGEST_DENSE, RowMatrix, SymmetricMatrix
from pymc_flymc.regression.passes import iterate_rows

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

    `tuned`: whether bounds touch at the anchor, or at equal probabilities of all classes. `slack`:
    slack in units of a row's expected gap: every log B_n is lowered by this much.
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
            u = _moves(x, shifts)
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
        moved = np.ascontiguousarray((eta[:, :, None] + _moves(x, shifts)).transpose(2, 1, 0))
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


def _moves(x: RowMatrix, shifts: np.ndarray) -> np.ndarray:
    """Return how far draws of `_laplace_shifts` move the predictors, (K - 1, n, LAPLACE_DRAWS)."""
    return np.stack([x @ of_predictor for of_predictor in shifts])


class Bohning(SoftmaxBound):
    r"""Quadratic lower bound on the softmax log-likelihood, tight at the anchor.

    The second-order expansion at the anchor, with the curvature replaced by
    :math:`A = \frac12 (I - 1 1^\top / K)`, which is nowhere exceeded (Böhning 1992), less the row
    and column of the reference class. As A is the same for all rows, the sum over rows needs
    :math:`\sum_n x_n x_n^\top` only, and no matrix of the size of all coefficients.

    Parameters
    ----------
    tuned : bool, default True
        Whether each row's bound touches at the anchor, or at equal probabilities of all classes.
    slack : float, default 1
        As in `JaakkolaJordan`.

    Raises
    ------
    ValueError
        If `slack` is negative or not finite.

    See Also
    --------
    JebaraChoromanska : tighter.
    Taylor : tighter where rows are many.

    References
    ----------
    Böhning, D. (1992). Multinomial logistic regression algorithm. Annals of the Institute of
    Statistical Mathematics 44, 197-200.

    Examples
    --------
    The bound of the paper, without tuning:

    >>> with model:
    ...     idata = pm.sample(step=FireflyHMC(bound=Bohning(tuned=False, slack=0)))
    """

    name = "Böhning"

    def curvature(self, touch: np.ndarray) -> np.ndarray:
        """Return A for each row, without the reference class, shape (K - 1, K - 1, n)."""
        k, n = touch.shape
        return np.broadcast_to((0.5 * (np.eye(k) - 1.0 / (k + 1)))[:, :, None], (k, k, n))

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data.

        The statistics are a constant, the centre (K - 1, P), the gradient there (K - 1, P), and
        sum_n x_n x_n', shape (P, P).
        """
        design = problem.design
        k, width = design.n_predictors, design.width
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        bright = np.empty(design.n_rows, np.float32)
        constant, gradient = 0.0, np.zeros((k, width))
        squares: SymmetricMatrix | None = None
        one = self.curvature(np.zeros((k, 1)))[0, 0]  # rows' curvatures differ only by weights
        for x, value, slope, curvature in expand_rows(self, problem, log_factor, constants, bright):
            constant += float(value.sum())
            gradient += slope @ x
            more = x.sandwich(curvature[0, 0] / one)
            squares = more if squares is None else squares + more
        assert squares is not None
        packed = np.concatenate([[constant], problem.own.w, gradient.ravel(), squares.pack()])
        return Preparation(packed, constants, bright)

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the collapsed sum; the rows share nothing."""
        k, size = likelihood.n_predictors, n_coefficients
        width = size // k
        places = quadratic_places(size)
        u, gradient = w - statistics[places.centre], statistics[places.linear]
        classes = [u[i * width : (i + 1) * width] for i in range(k)]
        # The op reads only the square, at the place that the curvature has in other quadratics.
        quadratic: Any = Quadratic(width > LARGEST_DENSE)
        square = statistics[places.curvature - quadratic_places(width).curvature :]
        form = -quadratic(sum(classes[1:], classes[0]), square)[1] / (k + 1)
        for each in classes:
            form = form + quadratic(each, square)[1]
        return statistics[places.constant] + pt.sum(gradient * u) - 0.25 * form, pt.zeros((0,))

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the gap.

        The label cancels: what remains is log sum exp, expanded, and a quadratic form.
        """
        touch = with_reference(touch_of(constants, len(arguments)))
        u = [eta - at for eta, at in zip(with_reference(arguments), touch, strict=True)]
        mean = sum(u[1:], u[0]) / len(u)
        # With u centred, which changes neither side, log sum exp p exp(u) is small where u is.
        log_total = log_sum_exp(touch)
        weights = [pt.exp(at - log_total) for at in touch]
        centred = [each - mean for each in u]
        linear = sum((p * c for p, c in zip(weights, centred, strict=True)), pt.zeros_like(mean))
        squares = sum((pt.sqr(c) for c in centred), pt.zeros_like(mean))
        growth = log_sum_exp([at - log_total + c for at, c in zip(touch, centred, strict=True)])
        gap = 0.25 * squares + linear - growth
        return weighted_gap(gap, likelihood, constants)


#: Keeps the curvature's formula away from 0/0; it is flat there.
SMALLEST = 1e-100


class JebaraChoromanska(OneQuadratic, SoftmaxBound):
    r"""Quadratic lower bound on the softmax log-likelihood whose curvature follows the row.

    Log sum exp is put together class by class. With :math:`z` the sum so far at the point where the
    bound touches, :math:`u` the distance from it, and :math:`z\, e^{\mu^\top u + u^\top S u / 2}` a
    bound on the sum so far, the next class, of exponential :math:`\alpha`, adds

    .. math:: z\, e^{\mu^\top u + u^\top S u/2} + \alpha\, e^{u_k}
       \le e^{\mu^\top u + u^\top S u/2} \left(z + \alpha\, e^{l^\top u}\right), \quad
       l = e_k - \mu,

    and the logarithm of the bracket obeys the bound of Jaakkola and Jordan in :math:`l^\top u`:
    S grows by :math:`c\, l l^\top`, :math:`\mu` by :math:`\alpha/(z + \alpha)\, l`, z by
    :math:`\alpha`, with :math:`c = \tanh(\xi/2)/(2\xi)`, :math:`\xi = \log(\alpha/z)`. The class
    that is most probable where the bound touches comes first, the others in their order.

    For two classes this is the bound of Jaakkola and Jordan. The more confidently a row is
    classified, the smaller its curvature, unlike that of `Bohning`, and the fewer rows are bright.
    The price is a matrix of the size of all coefficients: the collapsed sum takes
    :math:`((K - 1) P)^2` numbers and operations, against :math:`P^2` and :math:`(K - 1) P^2`.

    Parameters
    ----------
    tuned, slack
        As in `Bohning`.

    See Also
    --------
    Bohning : looser, without a matrix of the size of all coefficients.
    Taylor : tighter where rows are many.

    References
    ----------
    Jebara, T. and Choromanska, A. (2012). Majorization for CRFs and latent likelihoods. Advances in
    Neural Information Processing Systems 25, algorithm 1.

    Examples
    --------
    >>> with model:
    ...     idata = pm.sample(step=FireflyHMC(bound=JebaraChoromanska()))
    """

    name = "Jebara-Choromanska"

    def curvature(self, touch: np.ndarray) -> np.ndarray:
        """Return S for each row, without the reference class, shape (K - 1, K - 1, n)."""
        touch = np.concatenate([np.zeros_like(touch[:1]), touch])
        k, n = touch.shape
        first, each = touch.argmax(axis=0), np.arange(n)
        log_z = touch[first, each]
        mu = np.zeros((k, n))
        mu[first, each] = 1.0
        out = np.zeros((k, k, n))
        for i in range(k):
            rest = first != i
            xi = touch[i] - log_z
            ratio = np.where(rest, np.exp(xi), 0.0)
            xi = np.minimum(xi, -SMALLEST)
            along = -mu
            along[i] += 1.0
            curvature = np.where(rest, np.expm1(xi) / (2.0 * xi * (1.0 + ratio)), 0.0)
            out += (curvature * along)[:, None] * along
            mu += ratio / (1.0 + ratio) * along
            log_z = log_z + np.log1p(ratio)
        return out[1:, 1:]

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Compute the statistics and the rows' constants in one pass over the data."""
        design = problem.design
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        bright = np.empty(design.n_rows, np.float32)
        statistics = QuadraticStatistics(problem.own.w)
        for x, *expansion in expand_rows(self, problem, log_factor, constants, bright):
            statistics.add_expansion(x, *expansion)
        return Preparation(statistics.pack(), constants, bright)

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the gap: the recursion over classes again, for the quadratic form alone.

        The label cancels: what remains is log sum exp and its bound. A class costs an exponential
        and a logarithm, where S itself would be K^2/2 numbers to store and read for each row.
        """
        touch = with_reference(touch_of(constants, len(arguments)))
        u: list[Any] = [eta - at for eta, at in zip(with_reference(arguments), touch, strict=True)]
        log_z: Any = reduce(pt.maximum, touch)
        rest, before = [], pt.zeros_like(log_z, dtype="bool")
        for at in touch:
            first = pt.eq(at, reduce(pt.maximum, touch)) & ~before
            before = before | first
            rest.append(~first)
        mean: Any = sum(pt.switch(r, 0.0, each) for r, each in zip(rest, u, strict=True))
        form: Any = 0.0
        for at, each, counts in zip(touch, u, rest, strict=True):
            xi = at - log_z
            ratio = pt.switch(counts, pt.exp(xi), 0.0)
            xi = pt.minimum(xi, -SMALLEST)
            along = each - mean
            curvature = pt.switch(counts, pt.expm1(xi) / (2.0 * xi * (1.0 + ratio)), 0.0)
            form = form + curvature * pt.sqr(along)
            mean = mean + ratio / (1.0 + ratio) * along
            log_z = log_z + pt.log1p(ratio)
        growth = log_sum_exp([at - log_z + each - mean for at, each in zip(touch, u, strict=True)])
        return weighted_gap(0.5 * form - growth, likelihood, constants)
