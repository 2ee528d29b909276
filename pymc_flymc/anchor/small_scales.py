"""Posteriors in which a scale of effects may become small, and chains may not follow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_flymc.errors import warn
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.reading.unmoved_scales import UnmovedScale

__all__ = ["warn_of_small_scales"]

#: Posterior sd of the logarithm of a scale from which on it may become small: at three of them it
#: is e times smaller than usual, and steps are e times too long.
LEAST_SD = 1.0 / 3.0


def warn_of_small_scales(scales: Sequence[UnmovedScale], geometry: Geometry) -> None:
    """Warn of scales without moves that the data hardly know.

    Parameters
    ----------
    geometry : Geometry
        Of the Laplace approximation.
    """
    for each in scales:
        sds = [_sd(geometry, place) for place in range(each.places.start, each.places.stop)]
        if max(sds) > LEAST_SD:
            warn(
                f"chains may miss small values of {each.name!r}, a scale of {each.effects!r} that "
                "few rows inform, and R-hat may not show it: no move changes both together. Write "
                "effects as location + scale * z, with z ~ Normal(0, 1)"
            )


def _sd(geometry: Geometry, place: int) -> float:
    """Posterior standard deviation of an element of theta."""
    unit = np.zeros(len(geometry.centre))
    unit[place] = 1.0
    return float(np.linalg.norm(geometry.whiten_gradient(unit)))
