"""Böhning's bound on the softmax likelihood."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem
from pymc_flymc.bounds.softmax import SoftmaxBound, expand_rows, touch_of, weighted_gap
from pymc_flymc.graphs.quadratic_op import Quadratic
from pymc_flymc.kernels.layout import quadratic_places
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.softmax import log_sum_exp, with_reference


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
        constant, gradient, square = 0.0, np.zeros((k, width)), np.zeros((width, width))
        one = self.curvature(np.zeros((k, 1)))[0, 0]  # rows' curvatures differ only by weights
        for x, value, slope, curvature in expand_rows(self, problem, log_factor, constants, bright):
            constant += float(value.sum())
            gradient += slope @ x
            square += x.sandwich(curvature[0, 0] / one).array
        packed = np.concatenate([[constant], problem.own.w, gradient.ravel(), square.ravel()])
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
        quadratic: Any = Quadratic(False)
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
