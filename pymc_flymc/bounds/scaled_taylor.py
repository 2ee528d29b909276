"""Taylor expansions of likelihoods to a sampled power: gamma variables with a free shape."""

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds.bound import ExpansionBound, Graph, Graphs, Preparation, Problem
from pymc_flymc.bounds.taylor import Taylor
from pymc_flymc.bounds.taylor_parts import TaylorInParts
from pymc_flymc.graphs.tools import evaluate
from pymc_flymc.kernels.native import NativeFunction
from pymc_flymc.likelihoods.likelihood import Likelihood, ScaledLikelihood, says
from pymc_flymc.likelihoods.weighted import unweighted, weighted_family, weights_of


class Before(NamedTuple):
    """Places of the numbers before the statistics of the Taylor bound.

    Log scale at the anchor, and total weight.
    """

    log_scale: int = 0
    weight: int = 1


BEFORE = Before()


class ScaledTaylor(ExpansionBound):
    r"""The Taylor bound on a `ScaledLikelihood`, times its scale.

    With :math:`\log L_n = e^s \varphi_n(\eta_n) + h(s)` and the Taylor bound :math:`b_n \le
    \varphi_n` the logarithm of the bound is :math:`e^s b_n + h(s)`, for every s. Its sum is
    :math:`e^s` times that of the :math:`b_n`, and N times h. The metric, and so the radius, is that
    of the posterior of the coefficients: their information is that of the scale at the anchor.

    See Also
    --------
    Taylor : of likelihoods without a scale of their own.

    Examples
    --------
    Of a gamma variable with a free shape it is chosen by default:

    >>> with model:
    ...     idata = pm.sample(step=FireflyMH(bound=ScaledTaylor()))
    """

    name = "scaled Taylor"

    def __init__(self) -> None:
        self._use(Taylor())

    def _use(self, taylor: Taylor | TaylorInParts) -> None:
        self._taylor = taylor
        self.n_shared, self.n_sums = taylor.n_shared, taylor.n_sums

    @property
    def n_common(self) -> int:
        """Number of shared numbers that a row's gap depends on directly."""
        return self._taylor.n_common

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is a smooth one to a power that is sampled."""
        family = unweighted(likelihood)
        return isinstance(family, ScaledLikelihood) and says(family, "unit")

    def n_constants(self, likelihood: Likelihood) -> int:
        """Those of the smooth likelihood, and a weight."""
        return self._taylor.n_constants(_unit(likelihood))

    def prepare(
        self, problem: Problem, log_factor: NativeFunction, keep: float = 1.0
    ) -> Preparation:
        """Prepare the Taylor bound of the smooth likelihood with the anchor's scale as a weight."""
        prepared = self._taylor.prepare(_at_anchor(problem), log_factor, keep)
        log_scale = problem.own.w[-1]
        # The last of the row data is the weight. Divide by the scale, which it must not contain.
        weights = prepared.constants[:, self.n_constants(problem.likelihood) - 1]
        weights /= np.exp(log_scale)
        total = weights_of(problem.likelihood, problem.y)[1].sum()
        statistics = np.concatenate([Before(log_scale, total), prepared.statistics])
        return replace(prepared, statistics=statistics)

    def expected_rows(self, problem: Problem, stride: int, above: float = 0.0) -> float:
        """As of the Taylor bound, at the anchor's scale."""
        return self._taylor.expected_rows(_at_anchor(problem), stride, above)

    def collapsed(
        self, likelihood: Likelihood, w: Graph, statistics: Graph, n_coefficients: int
    ) -> tuple[Graph, Graph]:
        """Graphs as those of the Taylor bound, times the scale over that at the anchor."""
        p = n_coefficients - 1
        own: Any = statistics[len(BEFORE) :]
        expansion, shared = self._taylor.collapsed(_unit(likelihood), w[:p], own, p)
        times: Any = pt.exp(w[p] - statistics[BEFORE.log_scale])
        normaliser = statistics[BEFORE.weight] * _scaled(likelihood).log_normaliser(w[p])
        # Rates are in proportion to the scale, so that it multiplies the shared numbers.
        return times * expansion + normaliser, times * shared

    def remainder(self, likelihood: Likelihood, arguments: Graphs, constants: Graph) -> Graph:
        """Graph of the scale times the remainder of the expansion."""
        own = self._taylor.remainder(_unit(likelihood), arguments[:1], constants)
        return cast(Graph, pt.exp(arguments[-1]) * own)

    def rate(self, constants: Graph, arguments: Graphs, shared: Graphs) -> Graph:
        """Graph of the rate of the Taylor bound: shared numbers have the scale as a factor."""
        return self._taylor.rate(constants, arguments, shared)


class ScaledTaylorInParts(ScaledTaylor):
    """The bound of `ScaledTaylor` with effects of groups, for conditional moves."""

    def __init__(self, n_sparse: int) -> None:
        self._use(TaylorInParts(n_sparse))


def _scaled(likelihood: Likelihood) -> ScaledLikelihood:
    return cast(ScaledLikelihood, unweighted(likelihood))


def _unit(likelihood: Likelihood) -> Likelihood:
    """Return the smooth likelihood, with weights."""
    return weighted_family(*_scaled(likelihood).unit(np.ones(1)), np.ones(1))[0]


def _at_anchor(problem: Problem) -> Problem:
    """Return the problem with the scale fixed at the anchor's, as a weight of all rows."""
    family, own = _scaled(problem.likelihood), problem.own
    y, weights = weights_of(problem.likelihood, problem.y)
    p, log_scale = len(own.w) - 1, own.w[-1]
    flattening = own.expansion.flattening
    likelihood, y = weighted_family(*family.unit(y), np.exp(log_scale) * weights)
    expansion = replace(
        own.expansion,
        value=own.expansion.value
        - weights.sum() * float(evaluate(family.log_normaliser(pt.constant(log_scale)))),
        gradient=own.expansion.gradient[:p],
        information=own.expansion.information.unbordered(),
        flattening=None if flattening is None else flattening.unbordered(),
        w=own.expansion.w[:p],
    )
    return replace(
        problem,
        design=replace(problem.design, n_nuisances=0),
        y=y,
        likelihood=likelihood,
        own=AnchorPart(own.w_factor[:p], expansion),
    )
