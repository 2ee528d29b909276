"""Scales of noise that a search has followed towards zero, since rows can be fitted exactly."""

import numpy as np
from pymc.util import get_untransformed_name, is_transformed_name

from pymc_flymc.anchor.log_posterior import LogPosterior
from pymc_flymc.regression.regression import Regression, slices_of

#: A scale has collapsed if it is this small beside the standard deviation of the outcomes.
COLLAPSED = 1e-5
LOG_SCALE = "log sigma"


def why_scale_collapsed(posterior: LogPosterior, theta: np.ndarray) -> str | None:
    """Return sentences on a scale of noise that is next to zero at theta, None if there is none."""
    w = posterior.density.coefficients(theta)
    for regression, span in zip(
        posterior.regressions, slices_of(posterior.regressions), strict=True
    ):
        place = _place_of_log_scale(regression, span)
        if place is None or w[place] > np.log(COLLAPSED * _spread(regression)):
            continue
        i = _parameter_of(posterior, theta, place)
        name = posterior.layout.describe(i)
        name = get_untransformed_name(name) if is_transformed_name(name) else name
        return (
            f"the scale of the noise of {regression.name!r}, which is made of {name!r}, has "
            f"reached {np.exp(w[place]):.1e}: the rows can be fitted exactly, so that the density "
            "has no mode at a positive scale, but grows without limit towards zero. Give the scale "
            f"a prior that is zero at zero, such as {name} = pm.InverseGamma({name!r}, 2, 1)"
        )
    return None


def _place_of_log_scale(regression: Regression, span: slice) -> int | None:
    nuisances = tuple(regression.likelihood.nuisances)
    if LOG_SCALE not in nuisances:
        return None
    return span.stop - len(nuisances) + nuisances.index(LOG_SCALE)


def _spread(regression: Regression) -> float:
    y = regression.y if regression.y.ndim == 1 else regression.y[:, 0]
    if regression.design.stored is not None:
        return 0.0  # outcomes are out of core
    spread = float(np.std(y))
    return spread if spread > 0.0 else max(1.0, float(np.abs(y).max(initial=0.0)))


def _parameter_of(posterior: LogPosterior, theta: np.ndarray, place: int) -> int:
    """Return the element of theta that a coefficient changes most with."""
    changes = []
    for j in posterior.effects.dense:
        v = np.zeros(len(theta))
        v[j] = 1.0
        changes.append(abs(posterior.density.pushforward(theta, v)[place]))
    return int(posterior.effects.dense[int(np.argmax(changes))])
