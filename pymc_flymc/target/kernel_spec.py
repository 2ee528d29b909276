"""The properties of a kernel that targets, chains and the selection of kernels depend on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class KernelSpec:
    """How parameters and brightness are updated, and what this needs.

    A new kernel is a module of native code in `kernels`, a module in `sampling.adaptation` with its
    adaptation and one of these, and a step or a setting that uses it.
    """

    name: str
    #: ``run_kernel(dtype, n_likelihoods=1)`` compiles its loop for designs of a type.
    run_kernel: Callable[..., Any]
    #: The class of its `Adaptation`; ``adaptation()`` is as `FireflyMH` uses it.
    adaptation: Callable[..., Any]
    #: ``plan(target, resampling, cursor)`` returns how the loop draws z, with one chain's buffers.
    plan: Callable[..., Any]
    gradients: bool = False  #: Whether it follows gradients of the density.
    #: Whether z is drawn together with theta, independently of its previous value. Such a kernel is
    #: for one likelihood, under a bound for joint updates.
    fresh: bool = False
    #: Whether its proposals follow a surrogate, which treats some rows exactly, and expands others.
    exact: bool = False
    #: Whether it updates the effects of groups one by one: for one likelihood, whose rows have one
    #: effect each, under a bound without rates.
    local: bool = False

    @property
    def for_several(self) -> bool:
        """Return whether it supports several likelihoods."""
        return not (self.fresh or self.local)

    @property
    def weighs_density(self) -> bool:
        """Return whether the log weight of a state includes the log density of its parameters."""
        # It then changes when other steps change their variables. For a surrogate's proposals this
        # is the density of the surrogate.
        return self.fresh and not self.exact

    def compiled(self, dtype: np.dtype, n_likelihoods: int) -> Any:
        """Return its loop for designs of a type, compiled or loaded."""
        several = [n_likelihoods] if n_likelihoods > 1 else []
        return self.run_kernel(dtype, *several)
