"""The properties of a kernel that targets, chains and the selection of kernels depend on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class KernelSpec:
    """How parameters and brightness are updated, and what this needs.

    A new kernel is a module of native code in `kernels`, a module in `sampling.adaptation` with its
    adaptation and one of these, and a step or a setting that asks for it.

    Attributes
    ----------
    name : str
    run_kernel : callable
        ``run_kernel(dtype, n_likelihoods=1)`` compiles its loop for designs of a type.
    adaptation : callable
        The class of its `Adaptation`; ``adaptation()`` is as `FireflyMH` uses it.
    plan : callable
        ``plan(target, resampling, cursor)`` returns what the loop is told of how z is drawn, with
        one chain's buffers.
    gradients : bool
        Whether it follows gradients of the density.
    fresh : bool
        Whether z is drawn together with theta, independently of its previous value. Such a kernel
        is for one likelihood, under a bound for joint updates.
    exact : bool
        Whether its proposals follow a surrogate, which treats some rows exactly and all others by
        their expansion.
    local : bool
        Whether it updates the effects of groups one by one: for one likelihood, whose rows each
        have one effect, under a bound without rates.
    """

    name: str
    run_kernel: Callable[..., Any]
    adaptation: Callable[..., Any]
    plan: Callable[..., Any]
    gradients: bool = False
    fresh: bool = False
    exact: bool = False
    local: bool = False

    @property
    def for_several(self) -> bool:
        """Whether it is for several likelihoods, too."""
        return not (self.fresh or self.local)

    @property
    def weighs_density(self) -> bool:
        """Whether the log weight of a state includes the log density of its parameters.

        It then changes when other steps move their variables. Of a surrogate's proposals the
        density is that of the surrogate.
        """
        return self.fresh and not self.exact

    def compiled(self, dtype: np.dtype, n_likelihoods: int) -> Any:
        """Return its loop for designs of a type, compiled or loaded."""
        several = [n_likelihoods] if n_likelihoods > 1 else []
        return self.run_kernel(dtype, *several)
