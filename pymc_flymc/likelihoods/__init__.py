"""Families of likelihoods that Firefly can sample: one module and one list entry for each."""

from pymc_flymc.likelihoods.base import Likelihood, RowParameters, SmoothLikelihood
from pymc_flymc.likelihoods.bernoulli import BernoulliLogit
from pymc_flymc.likelihoods.location_scale import StudentT
from pymc_flymc.likelihoods.poisson import PoissonLog
from pymc_flymc.likelihoods.softmax import Softmax

LIKELIHOODS: list[Likelihood] = [BernoulliLogit(), PoissonLog(), Softmax(), StudentT()]

__all__ = [
    "LIKELIHOODS",
    "BernoulliLogit",
    "Likelihood",
    "PoissonLog",
    "RowParameters",
    "SmoothLikelihood",
    "Softmax",
    "StudentT",
]
