"""Priors under which a posterior may have several modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pymc as pm
from pymc.model.core import Model
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import warn

_MIXTURE: Any = pm.Mixture.rv_type


def warn_of_mixtures(model: Model, owned: Sequence[TensorVariable]) -> None:
    """Warn of mixtures among the priors, such as a spike and a slab.

    Parameters
    ----------
    owned : sequence of TensorVariable
        Value variables that the Firefly step samples.
    """
    sampled = [rv for rv in model.free_RVs if model.rvs_to_values[rv] in owned]
    found = [str(rv.name) for rv in sampled if isinstance(rv.owner.op, _MIXTURE)]
    if found:
        warn(
            f"the priors of {found} are mixtures, so that the posterior may have several modes. "
            "Bounds and proposals are tuned at one of them, around which all chains start, and "
            "R-hat does not show what none has visited. To see whether there are others, let "
            "chains start in different places: pm.sample(initvals=[{...}, {...}, ...]), one for "
            "each chain. A prior with one mode that leaves large coefficients alone is a "
            "horseshoe: "
            'pm.Normal("b", shape=p) * pm.HalfCauchy("local", 1, shape=p) * pm.HalfCauchy("tau", 1)'
        )
