"""Taylor expansions with a radius for each part of a row: bounds for effects of groups."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import numpy as np
from scipy.sparse import csr_array

from pymc_flymc.bounds.base import Graph, Graphs, Preparation, Problem
from pymc_flymc.bounds.parts import Parts, parts_of, split_rows
from pymc_flymc.bounds.remainder import remainder
from pymc_flymc.graphs.parts import Parts as PartsOp
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.kernels.rows import SUMS
from pymc_flymc.likelihoods import Likelihood, SmoothLikelihood, outcome
from pymc_flymc.regression.block_matrix import SparseRows
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.passes import iterate_rows, map_rows
from pymc_flymc.regression.quadratic import quadratic_size, quadratic_terms

__all__ = ["TaylorInParts"]

#: Between the anchor and the limits, derivatives are limited over so many ranges, one in another.
RANGES = 4


class TaylorInParts:
    r"""What `Taylor` is for effects of groups, in moves given z: a radius for each part of a row.

    A row's distance from the anchor is a sum over its parts, the dense columns and each effect,
    :math:`u = \sum_i a_i`, see `Parts`. For positive weights with :math:`\sum_i p_i = 1`, convexity
    gives :math:`|u|^3 \le \sum_i |a_i|^3 / p_i^2`, a sum over parts that collapses. The weights are
    in proportion to cubic means :math:`t_i` of the parts over the posterior. With
    :math:`T = \sum_i t_i`, limits :math:`l_i` of the parts, :math:`L = \sum_i l_i`, and
    :math:`\Lambda = T^2 \sum_i l_i^3 / t_i^2`,

    .. math:: |R| \le \kappa \sum_i \frac{|a_i|^3}{t_i^2}
                  + \kappa^\infty \sum_i s\Bigl(\frac{|a_i|}{l_i}\Bigr) \frac{|a_i|^3}{l_i^3},
              \qquad
              \kappa = \frac{M T^2}{6}, \quad \kappa^\infty = \frac{(M^\infty - M) \Lambda}{6}.

    M is for distances up to L, :math:`M^\infty` everywhere, and s a smooth step, zero up to a share
    of the limit and one beyond it. If the largest ratio :math:`\rho = |a_i| / l_i` is above one,
    the sum of the :math:`|a_i|^3 / p_i^2` is at most :math:`\rho^3 \Lambda`: then the second sum
    makes up for derivatives that exceed M. Where they grow exponentially, its terms do.

    Parameters
    ----------
    n_sparse : int
        Number of sparse columns, Q.
    """

    name = "Taylor"
    joint = False
    #: What the dense part brings, within its limit and beyond.
    n_common = 2

    def __init__(self, n_sparse: int) -> None:
        self.n_sparse = n_sparse
        self.n_shared = self.n_common + SUMS * n_sparse

    @classmethod
    def fits(cls, likelihood: Likelihood, design: Design) -> bool:
        """Whether there are effects, and such a bound on the likelihood."""
        return design.n_sparse > 0 and cls(design.n_sparse).supports(likelihood)

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is smooth, with bounded derivatives, of one predictor.

        It must be log-concave: sums over rows with many columns take convex rows as flat.
        """
        if not getattr(likelihood, "log_concave", True):
            return False
        return likelihood.n_predictors == 1 and isinstance(likelihood, SmoothLikelihood)

    def n_constants(self, likelihood: Likelihood) -> int:
        """Two kappas, the dense part's reach, outcome, predictor at the anchor, and row data."""
        return 5 + len(likelihood.row_data)

    def prepare(self, problem: Problem, log_factor: NativeFunction) -> Preparation:
        """Bound the remainders of all rows, in one pass over the data."""
        design, own, q = problem.design, problem.own, self.n_sparse
        parts = parts_of(own, q)
        constants = np.empty((design.n_rows, self.n_constants(problem.likelihood)))
        bright = np.empty(design.n_rows, np.float32)

        def bound(rows: slice, x: Any, eta: np.ndarray, y: np.ndarray) -> Any:
            split = split_rows(x, design, rows)
            near, far, reach, gap, limit = self.remainders(problem, parts, split, eta[0], y)
            columns = y.reshape(len(split), -1)
            constants[rows] = np.column_stack(
                [near, far, reach, columns[:, 0], eta[0], columns[:, 1:]]
            )
            bright[rows] = -np.expm1(-gap)
            effects, widest = split.sparse, np.zeros(q)
            np.maximum.at(widest, effects.indices, np.repeat(limit, np.diff(effects.indptr)))
            sums = (
                near @ reach,
                far.sum(),
                near @ _each(effects, np.abs),
                far @ _each(effects, np.ones_like),
            )
            return sums, limit.max(initial=0.0), widest

        own_near, own_far, dense_limit = 0.0, 0.0, 0.0
        near, far, limits = np.zeros(q), np.zeros(q), np.zeros(q)
        for sums, widest_row, widest in map_rows(design, problem.y, own.w, bound):
            own_near, own_far = own_near + sums[0], own_far + sums[1]
            near, far = near + sums[2], far + sums[3]
            dense_limit, limits = max(dense_limit, widest_row), np.maximum(limits, widest)
        growth = cast(SmoothLikelihood, problem.likelihood).growth
        dense = parts.limit > 0.0
        header = [
            q,
            parts.limit,
            parts.typical**-2 if dense else 0.0,
            growth * dense_limit / parts.limit if dense else 0.0,
            own_near,
            own_far,
        ]
        effects = [parts.limits, parts.typicals**-2, growth * limits / parts.limits, near, far]
        matrices = parts.precision.ravel(), parts.within.T.ravel()
        statistics = [own.expansion.pack(), header, *matrices, *effects]
        return Preparation(np.concatenate(statistics), constants, bright)

    def expected_rows(self, problem: Problem, stride: int) -> float:
        """Bright rows expected over the Laplace approximation, from every stride-th row."""
        parts, total = parts_of(problem.own, self.n_sparse), 0.0
        for rows, x, eta, y in iterate_rows(problem.design, problem.y, problem.own.w, stride):
            split = split_rows(x, problem.design, rows)
            total -= float(np.expm1(-self.remainders(problem, parts, split, eta[0], y)[3]).sum())
        return total * stride

    def remainders(
        self, problem: Problem, parts: Parts, x: SparseRows, eta: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Return what rows bring to the bound, each of shape (n,).

        Kappa within the limits and beyond, the reach of the dense part, the gap that is expected,
        and the distance up to which the first kappa holds.
        """
        likelihood, reach = cast(SmoothLikelihood, problem.likelihood), parts.dense_reach(x)
        sizes = _each(x.sparse, np.abs)
        typical = reach * parts.typical + sizes @ parts.typicals
        limit = reach * parts.limit + sizes @ parts.limits
        cubes = reach * _cube(parts.limit, parts.typical)
        cubes = cubes + sizes @ _cube(parts.limits, parts.typicals)
        # By the integral form of the remainder, in which near derivatives weigh more than far ones.
        steepest, ends = np.zeros(len(eta)), np.arange(RANGES + 1) / RANGES
        for start, end in pairwise(ends):
            span = end * limit
            each = likelihood.derivative_bound(3, eta - span, eta + span, y)
            steepest += ((1.0 - start) ** 3 - (1.0 - end) ** 3) * each
        span = 0.0 * eta if likelihood.growth else np.full(len(eta), np.inf)
        everywhere = likelihood.derivative_bound(3, eta - span, eta + span, y)
        near = steepest * typical**2 / 6.0
        return near, everywhere * limit**3 / 6.0, reach, near * typical, limit

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graph of the sum of log bounds, and what rows share: what their parts bring."""
        u, linear, form = quadratic_terms(w, statistics, n_coefficients)
        behind = statistics[quadratic_size(statistics, n_coefficients) :]
        outputs: Any = PartsOp(self.n_sparse)(u, behind)
        total, shared = outputs
        return statistics[0] + linear - form - total, shared

    def gap(
        self, likelihood: Likelihood, arguments: Graphs, constants: Graph, shared: Graphs
    ) -> Graph:
        """Graph of the remainder of the expansion plus its bound.

        Behind the predictor come the sums that the row makes of what the effects bring.
        """
        eta, within, beyond = arguments
        near, far, reach = (constants[:, i] for i in range(3))
        row_data = range(5, self.n_constants(likelihood))
        y = outcome(likelihood, [constants[:, i] for i in (3, *row_data)])
        limit = near * (reach * shared[0] + within) + far * (shared[1] + beyond)
        return remainder(likelihood, [eta], [constants[:, 4]], y, 2) + limit


def _cube(limit: Any, typical: Any) -> Any:
    """Return ``limit^3 / typical^2``, zero where there is no such part."""
    return limit**3 / np.where(typical > 0.0, typical, 1.0) ** 2


def _each(matrix: csr_array, of: Callable[[np.ndarray], np.ndarray]) -> csr_array:
    """Return a matrix of a function of each number that is kept: zeros, and places kept twice."""
    return csr_array((of(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
