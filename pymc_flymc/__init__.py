"""Exact Bayesian inference on tall data: Firefly Monte Carlo for PyMC."""

import warnings
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pymc_flymc.bounds import (
    Bohning,
    FreeJaakkolaJordan,
    JaakkolaJordan,
    JebaraChoromanska,
    ScaledTaylor,
    Tangent,
    Taylor,
)
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.reading.weights import weighted
from pymc_flymc.run_report import report
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
    "report",
    "weighted",
]
__version__ = version("pymc-flymc")

#: Names that have moved to `pymc_flymc.extending`.
_MOVED = ("check_bound", "register_bound", "register_likelihood")


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = f"{__name__}.extending"
    message = f"{__name__}.{name} is deprecated: import it from {place}"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(import_module(place), name)
