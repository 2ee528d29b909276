"""Exact Bayesian inference on tall data: Firefly Monte Carlo for PyMC.

Public names are imported when they are first used, so that `import pymc_flymc` costs next to
nothing. Steps and `report` need hardly more than PyMC: numba, SciPy's parts and most of this
package, which take as long to import as PyMC, wait for the first model.
"""

import warnings
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from pymc_flymc.out_of_core.row_summaries import random_rows, summarize_rows
    from pymc_flymc.plots import plot_brightness, plot_cost
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
    "plot_brightness",
    "plot_cost",
    "random_rows",
    "report",
    "summarize_rows",
    "weighted",
]
__version__ = version("pymc-flymc")

#: Module of each public name that is not a bound.
_PLACES = {
    "ExplicitResampling": "target.resampling",
    "FireflyHMC": "steps",
    "FireflyMALA": "steps",
    "FireflyMH": "steps",
    "FireflySlice": "steps",
    "ImplicitResampling": "target.resampling",
    "UnsupportedModelError": "errors",
    "plot_brightness": "plots",
    "plot_cost": "plots",
    "random_rows": "out_of_core.row_summaries",
    "report": "run_report",
    "summarize_rows": "out_of_core.row_summaries",
    "weighted": "reading.weights",
}
#: Names that have moved to `pymc_flymc.extending`.
_MOVED = ("check_bound", "register_bound", "register_likelihood")


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        message = f"{__name__}.{name} is deprecated: import it from {__name__}.extending"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(import_module(f"{__name__}.extending"), name)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_PLACES.get(name, 'bounds')}"), name)
    globals()[name] = found  # the next time it is an attribute as any
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
