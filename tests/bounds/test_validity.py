"""`check_bound` passes the package's bounds, and catches wrong ones."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_flymc import Bohning, FreeJaakkolaJordan, JaakkolaJordan, ScaledTaylor, Tangent, Taylor
from pymc_flymc.extending import check_bound
from pymc_flymc.likelihoods import (
    AsymmetricLaplace,
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliProbit,
    BinomialLogit,
    Durations,
    GammaFree,
    Logistic,
    NegativeBinomialFree,
    NegativeBinomialLog,
    Normal,
    PoissonLog,
    Softmax,
    StudentT,
    WeibullFree,
)
from pymc_flymc.likelihoods.weighted import weighted_family
from pymc_flymc.regression.expansion import quadratic_size
from pymc_flymc.regression.matrices import DenseRows

RNG = np.random.default_rng(0)
BINARY = RNG.integers(0, 2, 300)
TRIALS = RNG.integers(0, 50, 300)
COUNTS = RNG.negative_binomial(1.5, 0.2, 300)
DISPERSED = NegativeBinomialLog().read_observed(
    np.column_stack([COUNTS, RNG.exponential(size=300) ** 3]), "y"
)
GROUPED = np.column_stack([RNG.binomial(TRIALS, 0.3), TRIALS])
# Columns a and y^k, a third of the values being beyond their limits.
CENSORED = np.stack([RNG.random(300) < 0.7, RNG.gamma(2.0, size=300)], axis=1)
WEIGHTED = weighted_family(GammaFree(), RNG.gamma(2.0, size=300), RNG.exponential(size=300))
WEIGHTED_CLASSES = weighted_family(
    Softmax(n_predictors=2), RNG.integers(0, 3, 300), RNG.exponential(size=300)
)
MANY_TRIALS = np.column_stack([RNG.binomial(10**8, 0.3, 300), np.full(300, 10**8)])
CASES = [
    (JaakkolaJordan(), BernoulliLogit(), BINARY, ()),
    (JaakkolaJordan(xi=1.5, slack=0.0), BernoulliLogit(), BINARY, ()),
    (Taylor(2), BernoulliLogit(), BINARY, ()),
    (Taylor(3), BernoulliLogit(), BINARY, ()),
    (Taylor(2), BernoulliProbit(), BINARY, ()),
    pytest.param((Taylor(3), BernoulliProbit(), BINARY, ()), marks=pytest.mark.slow),
    (Taylor(2), BernoulliCloglog(), BINARY, ()),
    pytest.param((Taylor(3), BernoulliCloglog(), BINARY, ()), marks=pytest.mark.slow),
    (JaakkolaJordan(), BinomialLogit(), GROUPED, ()),
    (JaakkolaJordan(xi=1.5, slack=0.0), BinomialLogit(), GROUPED, ()),
    (Taylor(2), BinomialLogit(), GROUPED, ()),
    pytest.param((Taylor(3), BinomialLogit(), GROUPED, ()), marks=pytest.mark.slow),
    (JaakkolaJordan(), NegativeBinomialLog(), DISPERSED, ()),
    (Taylor(2), NegativeBinomialLog(), DISPERSED, ()),
    (FreeJaakkolaJordan(), NegativeBinomialFree(), COUNTS, (0.4,)),
    (FreeJaakkolaJordan(), NegativeBinomialFree(), COUNTS, (6.0,)),
    (Taylor(2), PoissonLog(), RNG.poisson(2.0, 300), ()),
    (Taylor(3), PoissonLog(), RNG.poisson(2.0, 300), ()),
    (Taylor(2), Durations(power=1.7, mass=1.7), CENSORED, ()),
    (Taylor(2), Durations(mass=0.6), CENSORED, ()),
    (Taylor(2), WeibullFree(), CENSORED, ()),
    (Taylor(3), WeibullFree(), CENSORED, ()),
    (ScaledTaylor(), GammaFree(), RNG.gamma(2.0, size=300), (-1.5,)),
    (ScaledTaylor(), GammaFree(), RNG.gamma(2.0, size=300), (6.0,)),
    (ScaledTaylor(), *WEIGHTED, (0.7,)),
    (Tangent(), StudentT(), RNG.standard_t(2.0, 300), (1.0, -0.5)),
    (Tangent(), Normal(), RNG.normal(size=300), (-0.5,)),
    (Tangent(), Normal(of_logarithms=True), RNG.lognormal(size=300), (0.4,)),
    (Tangent(), Logistic(), RNG.logistic(size=300), (-0.5,)),
    (Tangent(), AsymmetricLaplace(), RNG.laplace(size=300), (0.0, -0.5)),
    (Tangent(), AsymmetricLaplace(), RNG.laplace(size=300), (0.7, 0.5)),
    (Bohning(), Softmax(n_predictors=4), RNG.integers(0, 5, 300), ()),
    (Bohning(tuned=False), Softmax(n_predictors=1), BINARY, ()),
    (Bohning(), *WEIGHTED_CLASSES, ()),
    # Terms that are so large that what is left of their sum is rounding.
    (Taylor(2), PoissonLog(), RNG.poisson(1e6, 300), ()),
    (Taylor(2), BinomialLogit(), MANY_TRIALS, ()),
    (JaakkolaJordan(), BinomialLogit(), MANY_TRIALS, ()),
    (Tangent(), Normal(), 1e6 + RNG.normal(size=300), (-0.5,)),
    (ScaledTaylor(), GammaFree(), RNG.gamma(1e5, 1e3, 300), (10.0,)),
    (Taylor(2), Softmax(n_predictors=3), RNG.integers(0, 4, 300), ()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0].name}-{c[1].name}")
@pytest.mark.slow_cases(
    "Taylor-bernoulli-probit",
    "Taylor-bernoulli-cloglog",
    "Taylor-durations1",
    "third-order Taylor-weibull-free",
    "third-order Taylor-poisson-log",
    "tangent-logistic",
    "third-order Taylor-bernoulli-logit",
)
def test_bounds_of_the_package_pass(case, monkeypatch):
    monkeypatch.setattr(DenseRows, "block_rows", 128)  # statistics are sums over several
    bound, likelihood, y, nuisances = case
    check_bound(bound, likelihood, y, nuisances=nuisances)


class LooseCurvature(JaakkolaJordan):
    """A tenth less curvature than the bound needs, in gap and sum alike."""

    def coefficients(self, tightness, y, slack):
        a, b, c = super().coefficients(tightness, y, slack)
        return 0.9 * a, b, c

    def gap(self, likelihood, arguments, constants, shared):
        gap = super().gap(likelihood, arguments, constants, shared)
        return gap - 0.1 * constants[:, 0] * arguments[0] ** 2


class ForgottenSlack(Tangent):
    """Slack in the rows, and not in the sum."""

    def collapsed(self, likelihood, w, statistics, n_coefficients):
        total, shared = super().collapsed(likelihood, w, statistics, n_coefficients)
        return total + statistics[quadratic_size(statistics, n_coefficients - 2)], shared


class SmallRemainder(PoissonLog):
    """A third derivative half as large as it is."""

    def derivative_bound(self, order, low, high, y):
        return 0.5 * super().derivative_bound(order, low, high, y)


class OneClassForgotten(Bohning):
    """Curvature for one class too many."""

    def collapsed(self, likelihood, w, statistics, n_coefficients):
        total, shared = super().collapsed(likelihood, w, statistics, n_coefficients)
        return total + 1e-6 * pt.sum((w - statistics[1 : 1 + n_coefficients]) ** 2), shared


class SmallUnit(GammaFree):
    """As `SmallRemainder`, of shape one."""

    class Unit(Durations):
        def derivative_bound(self, order, low, high, y):
            return 0.5 * super().derivative_bound(order, low, high, y)

    def unit(self, y):
        return self.Unit(), super().unit(y)[1]


class OneRowTooMany(ScaledTaylor):
    """What normalises N + 1 rows."""

    def prepare(self, problem, log_factor, keep=1.0):
        prepared = super().prepare(problem, log_factor, keep)
        prepared.statistics[1] += 1.0
        return prepared


class FromBelowAlone(Taylor):
    """A rate that holds where the likelihood is below its expansion, not where it is above."""

    def rate(self, constants, arguments, shared):
        return 0.1 * super().rate(constants, arguments, shared)

    def gap(self, likelihood, arguments, constants, shared):
        return pt.maximum(super().gap(likelihood, arguments, constants, shared), 0.0)


def test_wrong_bounds_are_caught():
    with pytest.raises(AssertionError, match="less than the remainder of its expansion"):
        check_bound(FromBelowAlone(), BernoulliLogit(), BINARY)
    with pytest.raises(AssertionError, match="is no lower bound on bernoulli-logit"):
        check_bound(LooseCurvature(slack=0.0), BernoulliLogit(), BINARY)
    with pytest.raises(AssertionError, match="is no lower bound on poisson-log"):
        check_bound(Taylor(), SmallRemainder(), RNG.poisson(2.0, 300))
    y = RNG.gamma(2.0, size=300)
    with pytest.raises(AssertionError, match=r"scaled Taylor (is no lower bound )?on gamma-free"):
        check_bound(ScaledTaylor(), SmallUnit(), y, nuisances=(1.0,))
    with pytest.raises(AssertionError, match="the collapsed sum of scaled Taylor is"):
        check_bound(OneRowTooMany(), GammaFree(), y, nuisances=(1.0,))
    with pytest.raises(AssertionError, match="the collapsed sum of tangent is"):
        check_bound(ForgottenSlack(), StudentT(), RNG.standard_t(2.0, 300), nuisances=(1.0, 0.0))
    with pytest.raises(AssertionError, match="the collapsed sum of Böhning is"):
        check_bound(OneClassForgotten(), Softmax(n_predictors=2), RNG.integers(0, 3, 300))
    with pytest.raises(ValueError, match="tangent does not support bernoulli-logit"):
        check_bound(Tangent(), BernoulliLogit(), BINARY)
