"""The Jebara-Choromanska bound on the softmax likelihood."""

from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.bounds.bound import Graph, Graphs, Preparation, Problem
from pymc_flymc.bounds.quadratic_bounds import OneQuadratic
from pymc_flymc.bounds.softmax import SoftmaxBound, expand_rows, touch_of, weighted_gap
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.softmax import log_sum_exp, with_reference
from pymc_flymc.regression.quadratic_statistics import QuadraticStatistics

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
