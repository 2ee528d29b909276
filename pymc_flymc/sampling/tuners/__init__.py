"""Kernels: how their parameters begin, what they learn while a chain tunes, what they report."""

from pymc_flymc.sampling.tuners.base import Tuner
from pymc_flymc.sampling.tuners.hamiltonian import HAMILTONIAN, HamiltonianTuner
from pymc_flymc.sampling.tuners.local import LOCAL, LocalTuner
from pymc_flymc.sampling.tuners.metropolis import JOINT, METROPOLIS, MetropolisTuner
from pymc_flymc.sampling.tuners.slice import SLICE, SliceTuner
from pymc_flymc.sampling.tuners.surrogate import SURROGATE, SurrogateTuner
from pymc_flymc.settings import check_choice
from pymc_flymc.target.kernel_spec import KernelSpec

__all__ = [
    "HAMILTONIAN",
    "JOINT",
    "KERNELS",
    "LOCAL",
    "METROPOLIS",
    "SLICE",
    "SURROGATE",
    "HamiltonianTuner",
    "LocalTuner",
    "MetropolisTuner",
    "SliceTuner",
    "SurrogateTuner",
    "Tuner",
    "spec_of",
]

#: All kernels, by name.
KERNELS = {spec.name: spec for spec in (JOINT, METROPOLIS, HAMILTONIAN, SLICE, SURROGATE, LOCAL)}


def spec_of(kernel: str) -> KernelSpec:
    """Return the kernel of a name.

    Raises
    ------
    ValueError
        If there is none; it lists those that there are.
    """
    check_choice("kernel", kernel, KERNELS)
    return KERNELS[kernel]
