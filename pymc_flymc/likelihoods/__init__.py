"""Families of likelihoods that Firefly can sample: a list entry for each."""

from pymc_flymc.likelihoods.bernoulli import (
    BernoulliCloglog,
    BernoulliLogit,
    BernoulliProbit,
    BinomialLogit,
    Geometric,
)
from pymc_flymc.likelihoods.beta import Beta, BetaBinomial
from pymc_flymc.likelihoods.counts import (
    NegativeBinomialFree,
    NegativeBinomialLog,
    PoissonLog,
    ZeroTruncatedNegativeBinomial,
    ZeroTruncatedPoisson,
)
from pymc_flymc.likelihoods.durations import Durations, GammaFree, WeibullFree
from pymc_flymc.likelihoods.free_alpha import (
    NegativeBinomialSmooth,
    ZeroInflatedNegativeBinomialFree,
    ZeroTruncatedNegativeBinomialFree,
)
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.likelihoods.location_scale import AsymmetricLaplace, Logistic, StudentT
from pymc_flymc.likelihoods.normal import (
    CensoredNormal,
    Normal,
    SkewNormal,
    TruncatedNormal,
    VonMises,
)
from pymc_flymc.likelihoods.ordered import OrderedLogit
from pymc_flymc.likelihoods.scales_by_row import NormalScales, StudentTScales
from pymc_flymc.likelihoods.softmax import Multinomial, Softmax
from pymc_flymc.likelihoods.zero_inflated import ZeroInflatedPoisson, ZeroInflatedTrials

LIKELIHOODS: list[Likelihood] = [
    BernoulliLogit(),
    BernoulliProbit(),
    BernoulliCloglog(),
    BinomialLogit(),
    Geometric(),
    NegativeBinomialLog(),
    NegativeBinomialFree(),
    NegativeBinomialSmooth(),
    PoissonLog(),
    ZeroInflatedPoisson(),
    ZeroInflatedTrials(),
    ZeroInflatedNegativeBinomialFree(),
    ZeroTruncatedPoisson(),
    ZeroTruncatedNegativeBinomial(),
    ZeroTruncatedNegativeBinomialFree(),
    Durations(),
    WeibullFree(),
    GammaFree(),
    Beta(),
    BetaBinomial(),
    OrderedLogit(),
    Softmax(),
    Multinomial(),
    Normal(),
    NormalScales(),
    CensoredNormal(),
    TruncatedNormal(),
    SkewNormal(),
    VonMises(),
    StudentT(),
    StudentTScales(),
    Logistic(),
    AsymmetricLaplace(),
]
