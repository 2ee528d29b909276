"""Families of likelihoods that Firefly can sample: one module and one list entry for each."""

from pymc_flymc.likelihoods.base import Likelihood
from pymc_flymc.likelihoods.bernoulli import BernoulliLogit

LIKELIHOODS: list[Likelihood] = [BernoulliLogit()]

__all__ = ["LIKELIHOODS", "BernoulliLogit", "Likelihood"]
