"""Posteriors that are none: directions in which neither the prior nor the likelihood ever falls.

Only a flat prior can let that happen. A density that does not change as some parameters move along
a line, or does not fall as they move along a ray, from wherever they begin, has an infinite
integral. What set-up knows names such lines; only what it names is then tried on all rows, and
refused if the log-likelihood at a very great distance is what it is here. So no proper posterior
is refused, and none with proper priors costs anything.
"""

from __future__ import annotations

import numpy as np

from pymc_flymc.anchor.flat_lines import FlatLines
from pymc_flymc.anchor.landscape import Landscape
from pymc_flymc.anchor.surrogate import Surrogate
from pymc_flymc.reading.flat import Layout
from pymc_flymc.regression.regression import JointExpansion

__all__ = ["check_bounded", "check_proper"]

#: Distances, in units in which predictors change by about one, at which a direction is tried.
FAR = (1e2, 1e7)
#: Newton steps on such a ray shrink the curvature along it by a factor of e each.
SHRINKING = 0.7
#: The promise of a search that has found a mode is less.
CONVERGED = 0.01
#: So many more steps leave nothing of it.
MORE_STEPS = 50.0
#: A logarithm beyond it is no mode.
RUNAWAY = 100.0
#: Parameters that a message names, at most.
NAMED = 4


def check_bounded(landscape: Landscape, theta: np.ndarray, expansion: JointExpansion) -> None:
    """Refuse logarithms that the search has lost, since the prior of what they stand for is flat.

    The parameters, and the error raised, are those of `check_proper`.
    """
    if np.max(theta) < RUNAWAY:
        return
    runaways = _Rest(landscape.surrogate, expansion).rising(theta)
    if len(runaways):
        raise ValueError(
            f"no posterior mode found: {_listed(runaways, landscape.layout)} grows for ever, since "
            f"neither its prior nor the likelihood of {landscape.names} falls as it does. "
            f"{_way_out(runaways)}"
        )


def check_proper(
    landscape: Landscape,
    theta: np.ndarray,
    expansion: JointExpansion,
    previous: JointExpansion | None,
) -> None:
    """Refuse a posterior that has no integral because of a flat prior.

    Parameters
    ----------
    theta : ndarray, shape (D,)
        Where the search ended.
    expansion, previous : JointExpansion
        The log-likelihoods around it, and around the search's last point but one, if there is one.

    Raises
    ------
    ValueError
        If a direction is found; it names the parameters.
    """
    rest, names, layout = _Rest(landscape.surrogate, expansion), landscape.names, landscape.layout
    flat = rest.flat(theta)
    if not len(flat):
        return
    lines = FlatLines(landscape.surrogate, theta, flat, landscape.effects)
    n_rows = max(regression.design.n_rows for regression in landscape.regressions)

    def log_likelihood(theta: np.ndarray) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # so far away that it may overflow
            return landscape.expand(theta).value

    def is_endless(v: np.ndarray) -> bool:
        """Whether the log density never falls along v, wherever the other parameters are."""
        for start in (theta, nearby(theta)):
            floor = log_likelihood(start)
            floor -= 1e-3 + 1e-9 * abs(floor)
            for distance in FAR:
                there = start + distance * v
                if not (rest.is_same(start, there) and log_likelihood(there) >= floor):
                    return False
        return True

    for v in lines.without_curvature(expansion):
        v = v / lines.reach(expansion, v, n_rows)
        if is_endless(v) and is_endless(-v):
            moved = np.flatnonzero(v)
            if len(moved) == 1:
                raise ValueError(
                    f"the posterior is improper: {_listed(moved, layout)} has no effect on the "
                    f"likelihood of {names}, and its prior is flat. {_way_out(moved)}"
                )
            proportions = ", ".join(f"{x:.3g}" for x in v[moved[:NAMED]] / v[moved[0]])
            raise ValueError(
                f"the posterior is improper: {_listed(moved, layout)} have flat priors, and the "
                f"likelihood of {names} does not change as they move together, in the proportions "
                f"{proportions}{', ...' if len(moved) > NAMED else ''}. Give one of them a proper "
                "prior, or drop one, with its column"
            )
    if previous is None:
        return
    step = lines.newton_step(expansion)
    # Twice what the step promises to gain.
    curvature = lines.curvature(expansion, step)
    if SHRINKING * lines.curvature(previous, step) < curvature < CONVERGED:
        return
    v = lines.ray(expansion, landscape.expand(theta + MORE_STEPS * step), step)
    moved = np.flatnonzero(v)
    if len(moved) and is_endless(v / np.max(np.abs(v[moved] / step[moved]))):
        raise ValueError(
            f"no posterior mode found: the likelihood of {names} rises for ever along "
            f"{_listed(moved, layout)}, and the prior is flat: all outcomes agree where the "
            f"predictors change along it, or the predictors separate them. {_way_out(moved)}"
        )


def nearby(theta: np.ndarray) -> np.ndarray:
    """Return a point where no product vanishes by chance."""
    return theta + 0.1 * np.random.default_rng(20141104).standard_normal(len(theta))


def _listed(places: np.ndarray, layout: Layout) -> str:
    named = ", ".join(layout.describe(int(place)) for place in places[:NAMED])
    return named + (f" and {len(places) - NAMED} more" if len(places) > NAMED else "")


def _way_out(places: np.ndarray) -> str:
    if len(places) == 1:
        return "Give it a proper prior, or drop it, with its column"
    return "Give them proper priors, or drop them, with their columns"


class _Rest:
    """The model without its likelihoods, which it is compared with.

    Parameters
    ----------
    surrogate : Surrogate
    expansion : JointExpansion
        Of the log-likelihoods.
    """

    def __init__(self, surrogate: Surrogate, expansion: JointExpansion) -> None:
        self._surrogate = surrogate
        self._statistics = expansion.pack()
        self._nothing = expansion.without([True] * len(expansion.parts)).pack()

    def flat(self, theta: np.ndarray) -> np.ndarray:
        """Positions of the parameters that it does not depend on, near theta."""
        gradients = [self._surrogate(t, self._nothing)[1] for t in (theta, nearby(theta))]
        return np.flatnonzero((gradients[0] == 0.0) & (gradients[1] == 0.0))

    def rising(self, theta: np.ndarray) -> np.ndarray:
        """Positions of large parameters of which it holds the Jacobian of a logarithm alone."""
        before = np.clip(theta, -1.0, 1.0)
        gradients = [self._surrogate(t, self._nothing)[1] for t in (before, nearby(before))]
        jacobian = (gradients[0] == 1.0) & (gradients[1] == 1.0)
        # At a mode the likelihood would balance it.
        slope = self._surrogate(theta, self._statistics)[1]
        return np.flatnonzero(jacobian & (theta > RUNAWAY) & ~(slope < 0.5))

    def is_same(self, here: np.ndarray, there: np.ndarray) -> bool:
        """Whether it has one value at both: a potential may be flat up to some distance only."""
        values = [self._surrogate(t, self._nothing)[0] for t in (here, there)]
        return values[0] == values[1]
