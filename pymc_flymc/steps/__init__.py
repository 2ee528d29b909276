"""PyMC step methods: thin shells around a target and its chains, one for each kind of update."""

from pymc_flymc.steps.hamiltonian import FireflyHMC, FireflyMALA
from pymc_flymc.steps.metropolis import FireflyMH
from pymc_flymc.steps.slice import FireflySlice

__all__ = ["FireflyHMC", "FireflyMALA", "FireflyMH", "FireflySlice"]
