"""Kernels: how their parameters begin, what they learn while a chain tunes, what they report."""

from pymc_flymc.sampling.adaptation.hamiltonian import HAMILTONIAN
from pymc_flymc.sampling.adaptation.local import LOCAL
from pymc_flymc.sampling.adaptation.metropolis import JOINT, METROPOLIS
from pymc_flymc.sampling.adaptation.slice import SLICE
from pymc_flymc.sampling.adaptation.surrogate import SURROGATE
from pymc_flymc.settings import check_choice
from pymc_flymc.target.target import KernelSpec

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
