"""Exact Bayesian inference on tall data: Firefly Monte Carlo for PyMC."""

from importlib.metadata import version

from pymc_flymc.bounds import (
    Bohning,
    FreeJaakkolaJordan,
    JaakkolaJordan,
    JebaraChoromanska,
    ScaledTaylor,
    Tangent,
    Taylor,
    register_bound,
)
from pymc_flymc.bounds.check import check_bound
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods import register_likelihood
from pymc_flymc.reading.weights import weighted
from pymc_flymc.steps import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice
from pymc_flymc.target.resampling import ExplicitResampling, ImplicitResampling

__all__ = [
    "Bohning",
    "ExplicitResampling",
    "FireflyHMC",
    "FireflyMALA",
    "FireflyMH",
    "FireflySlice",
    "FreeJaakkolaJordan",
    "ImplicitResampling",
    "JaakkolaJordan",
    "JebaraChoromanska",
    "ScaledTaylor",
    "Tangent",
    "Taylor",
    "UnsupportedModelError",
    "check_bound",
    "register_bound",
    "register_likelihood",
    "weighted",
]
__version__ = version("pymc-flymc")
