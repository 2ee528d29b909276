"""Exact Bayesian inference on tall data: Firefly Monte Carlo for PyMC."""

from importlib.metadata import version

from pymc_flymc.bounds import Bohning, JaakkolaJordan, JebaraChoromanska, Tangent, Taylor
from pymc_flymc.checks import check_bound
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods import register_likelihood
from pymc_flymc.resampling import ExplicitResampling, ImplicitResampling
from pymc_flymc.step import FireflyMH

__all__ = [
    "Bohning",
    "ExplicitResampling",
    "FireflyMH",
    "ImplicitResampling",
    "JaakkolaJordan",
    "JebaraChoromanska",
    "Tangent",
    "Taylor",
    "UnsupportedModelError",
    "check_bound",
    "register_likelihood",
]
__version__ = version("pymc-flymc")
