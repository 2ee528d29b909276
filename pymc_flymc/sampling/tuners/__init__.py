"""How each kernel's moves begin, what they learn while a chain tunes, and what they report."""

from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.sampling.tuners.base import Tuner
from pymc_flymc.sampling.tuners.hamiltonian import HamiltonianTuner
from pymc_flymc.sampling.tuners.metropolis import MetropolisTuner
from pymc_flymc.sampling.tuners.slice import SliceTuner
from pymc_flymc.sampling.tuners.surrogate import SurrogateTuner

__all__ = [
    "HamiltonianTuner",
    "MetropolisTuner",
    "SliceTuner",
    "SurrogateTuner",
    "Tuner",
    "tuner_of",
]


def tuner_of(kernel: str, geometry: Geometry, proposal: str = "auto") -> Tuner:
    """Return the tuner of a kernel as `FireflyMH` uses it, for chains that begin in a geometry.

    Raises
    ------
    ValueError
        If its moves do not include the proposal.
    """
    if kernel == "surrogate":
        return SurrogateTuner()
    if kernel == "hamiltonian":
        return HamiltonianTuner(wide=len(geometry.wide) > 0)
    return MetropolisTuner(proposal, kernel == "joint")
