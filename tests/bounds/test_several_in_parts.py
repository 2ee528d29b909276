"""The Taylor bound in parts with several predictors: below the likelihood, and collapsing."""

from types import SimpleNamespace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_flymc.anchor.anchor import AnchorPart
from pymc_flymc.bounds import Problem, TaylorInParts
from pymc_flymc.kernels.layout import PARTS_ROW, PARTS_SHARED
from pymc_flymc.likelihoods import Beta, Softmax, TruncatedNormal, ZeroInflatedPoisson
from pymc_flymc.likelihoods.free_alpha import NegativeBinomialSmooth
from pymc_flymc.likelihoods.likelihood import outcome
from pymc_flymc.likelihoods.scales_by_row import NormalScales, StudentTScales
from pymc_flymc.regression import expansion, matrices
from pymc_flymc.regression.design import Design, SparseColumns, stack
from pymc_flymc.regression.passes import likelihood_pass
from pymc_flymc.regression.regression import Regression

N, GROUPS, M = 200, 6, 2
Q = 2 * GROUPS
RNG = np.random.default_rng(5)
GROUP, X = RNG.integers(0, GROUPS, N), RNG.normal(size=N)
COUNTS = RNG.poisson(2.0, N) * RNG.integers(0, 2, N)
NOISE = RNG.standard_t(3, size=N)
NO_ERROR = np.zeros(N)
#: Outcomes that cover what each likelihood allows.
FAMILIES = {
    "normal-scales": (NormalScales(), np.column_stack([NOISE, NO_ERROR])),
    "student-t-scales": (StudentTScales(), np.column_stack([NOISE, np.abs(X)])),
    "zero-inflated": (ZeroInflatedPoisson(), COUNTS),
    "negative-binomial": (NegativeBinomialSmooth(), COUNTS),
    "beta": (Beta(), RNG.beta(2.0, 3.0, N)),
    "truncated": (TruncatedNormal(), np.column_stack([np.abs(NOISE), np.ones(N)])),
    "softmax": (Softmax(n_predictors=2), RNG.integers(0, 3, N)),
}
#: Distances from the anchor in units of the sds that the bound is made for.
SCALES = (0.0, 0.01, 0.3, 1.0, 1.0, 3.0, 10.0, 30.0)


class Case:
    """A bound, and what it says of all rows at coefficients."""

    def __init__(self, name, kept):
        self.likelihood, y = FAMILIES[name]
        k = self.likelihood.n_predictors
        columns = stack(
            [
                SparseColumns.of_codes(GROUP[:, None], None, GROUPS),
                SparseColumns.of_codes(GROUP[:, None], X[:, None], GROUPS),
            ]
        )
        design = Design(X[:, None], np.empty((0, k)), True, sparse=columns)
        self.k, self.rows, self.design = k, design.matrix(slice(None)), design
        regression = Regression("y", design, y, self.likelihood)
        self.w = 0.2 * RNG.normal(size=design.n_coefficients)
        # On the last predictor there are no effects.
        width = M + Q
        self.moved = np.ones(len(self.w), bool)
        self.moved[(k - 1) * width + M :] = kept
        self.w[~self.moved] = 0.0
        around = likelihood_pass(design, y, regression.derivatives, self.w)
        self.sds = np.where(self.moved, 0.15, 0.0)
        anchor = SimpleNamespace(parts=[AnchorPart(np.diag(self.sds), around)])
        (problem,) = Problem.of([regression], anchor)
        self.bound = TaylorInParts(Q, k)
        self.prepared = self.bound.prepare(problem, None)
        self._evaluate = self._compiled(y)

    def _compiled(self, y):
        w, statistics = pt.dvector("w"), pt.constant(self.prepared.statistics)
        constants = pt.constant(self.prepared.constants)
        arguments = [pt.dvector(str(i)) for i in range(self.k + self.bound.n_sums)]
        total, shared = self.bound.collapsed(self.likelihood, w, statistics, len(self.w))
        known = pt.dvector("shared")
        powers = [known[i] for i in range(self.bound.n_common)]
        columns = [pt.constant(np.asarray(c, float)) for c in np.atleast_2d(y.T)]
        log_l = self.likelihood.log_likelihood(
            arguments[: self.k], outcome(self.likelihood, columns)
        )
        remainder = self.bound.remainder(self.likelihood, arguments, constants)
        rate = self.bound.rate(constants, arguments, powers)
        mode = pytensor.compile.Mode(linker="py", optimizer="merge")
        both = pytensor.function([w], [total, shared], mode=mode)
        of_rows = pytensor.function([*arguments, known], [log_l, remainder, rate], mode=mode)
        return both, of_rows

    def at(self, w):
        """Collapsed sum, log-likelihoods, remainders of expansions, and rates of all rows."""
        both, of_rows = self._evaluate
        total, shared = both(w)
        effects = shared[PARTS_SHARED.effects :].reshape(2 * self.k, Q)
        sums = (self.rows.sparse_sizes @ effects.T).T
        return total, *of_rows(*self.design.predictor(w).T, *sums, shared)


@pytest.fixture(params=[300, 1], ids=["dense", "arrow"])
def largest(request, monkeypatch):
    """Both formats of matrices."""
    for module in (matrices, expansion):
        monkeypatch.setattr(module, "LARGEST_DENSE", request.param)


@pytest.mark.parametrize("kept", [True, False], ids=["effects on all", "effects on some"])
@pytest.mark.parametrize("name", FAMILIES)
def test_bound_is_below_the_likelihood_and_collapses(name, kept, largest):
    """Near the anchor and far out, in all directions, along one, and along that of a row."""
    case, rng = Case(name, kept), np.random.default_rng(7)
    case.rows = SimpleNamespace(sparse_sizes=case.rows.sizes())
    n, width, beyond = len(case.w), M + Q, 0
    places = np.flatnonzero(case.moved)
    for scale in SCALES:
        directions = [rng.normal(size=n), np.eye(n)[rng.choice(places)]]
        along = np.zeros((case.k, width))
        i = rng.integers(N)
        along[:, [0, 1, M + GROUP[i], M + GROUPS + GROUP[i]]] = [X[i], 1.0, 1.0, X[i]]
        directions += [(rng.normal(size=(case.k, 1)) * along).ravel()]
        for direction in directions:
            w = case.w + scale * case.sds * direction
            total, log_l, remainder, rate = case.at(w)
            known = np.isfinite(log_l) & np.isfinite(remainder)
            size = 1.0 + np.abs(log_l) + np.abs(remainder)
            slack = rate - np.abs(remainder)
            kept_bright = np.isinf(case.prepared.constants[:, PARTS_ROW.near])
            bad = known & ~kept_bright & ~(slack >= -1e-11 * size)
            assert not bad.any(), (name, scale, np.flatnonzero(bad), slack[bad], rate[bad])
            beyond += np.count_nonzero(rate > 0.0)
            if known.all():
                expected = np.sum(log_l - remainder)
                assert total == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.sum(size))
    assert beyond > N
