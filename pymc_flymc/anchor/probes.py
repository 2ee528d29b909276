"""Curvatures of effects of groups, for all groups at once: products of a Hessian with signs."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_flymc.anchor.effects import Effects

#: Least number of probes of the curvature of diagonal elements, if they are not exact.
PROBES = 8
#: Largest relative difference of probes that are exact.
SAME = 1e-9
#: Least eigenvalue of the correlation matrix of a group's effects: below, it is not used.
PROPER = 1e-3


class Curvatures(NamedTuple):
    """Second derivatives in effects of groups, with their sign changed."""

    diagonal: np.ndarray  #: Of effects, and zero for all others, (D,).
    #: Where a variable begins among the diagonal elements, and the matrices (J, K, K) of its J
    #: groups, as they are probed: neither symmetric nor positive definite. Variables whose groups
    #: are coupled are left out.
    blocks: list[tuple[int, np.ndarray]]


class Probes:
    """Directions along which the curvatures of effects are found, and how often each is probed.

    A probe is exact if effects that are probed together are not coupled, as of one grouping factor,
    else right on average. This depends on the rows, and not on where the curvatures are: once it is
    known, each direction is probed once.
    """

    def __init__(self, effects: Effects) -> None:
        self._effects, n_probes = effects, len(effects.probes)
        self._n_repeats = -(-PROBES // n_probes) if n_probes else 0
        if effects.runs:  # two probes disagree if groups are coupled
            self._n_repeats = max(self._n_repeats, 2)
        self._uncoupled: list[bool] | None = None

    def __call__(self, times: Callable[[np.ndarray], np.ndarray], size: int) -> Curvatures:
        """Return curvatures, given a function that multiplies a Hessian by a vector, (D,)."""
        effects, rng = self._effects, np.random.default_rng(20141104)
        diagonal, exact = np.zeros(size), True
        runs = [
            effects.diagonal[start : start + k * j].reshape(k, j) for start, k, j in effects.runs
        ]
        # For each run the matrices of its groups, a column for each slope, for each time probed.
        columns: list[list[np.ndarray]] = [[] for _ in runs]
        for places in effects.probes + effects.few:
            run = next((i for i, at in enumerate(runs) if np.isin(places[0], at)), None)
            probed, together = [], []
            for _ in range(self._n_repeats):
                signs = rng.choice([-1.0, 1.0], len(places))
                along = times(indicator(size, places, signs))
                probed.append(-signs * along[places])
                if run is not None:
                    together.append((-signs * along[runs[run]]).T)
            total = np.mean(probed, axis=0)
            exact = exact and _agree(np.array(probed), total)
            good = total > least_curvature(total)
            # Noise, or no mode in this direction: the median of the others replaces it.
            diagonal[places] = np.where(good, total, np.median(total[good]) if good.any() else 1.0)
            if run is not None:
                columns[run].append(np.array(together))
        matrices = [np.stack(each, axis=3) for each in columns]
        if self._uncoupled is None:
            self._uncoupled = [_agree(each, each.mean(axis=0)) for each in matrices]
            if exact:
                self._n_repeats = min(self._n_repeats, 1)
        found = zip(effects.runs, matrices, self._uncoupled, strict=True)
        return Curvatures(
            diagonal, [(run[0], each.mean(axis=0)) for run, each, uncoupled in found if uncoupled]
        )


def proper(curvatures: Curvatures, diagonal: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return the precision of each group's effects, made symmetric and positive definite."""
    found = []
    for start, probed in curvatures.blocks:
        j, k, _ = probed.shape
        own = curvatures.diagonal[diagonal[start : start + k * j]].reshape(k, j).T
        each = 0.5 * (probed + probed.transpose(0, 2, 1))
        each[:, range(k), range(k)] = own
        size = np.sqrt(own[:, :, None] * own[:, None, :])
        bad = np.linalg.eigvalsh(each / size).min(axis=1) < PROPER
        each[bad] = own[bad][:, :, None] * np.eye(k)
        found.append((start, each))
    return found


def indicator(size: int, places: np.ndarray | int, values: np.ndarray | float) -> np.ndarray:
    """Return a vector of zeros with values at some places."""
    out = np.zeros(size)
    out[places] = values
    return out


def least_curvature(curvature: np.ndarray) -> float:
    """Return the least curvature that exceeds the rounding error of zero, in any units."""
    largest = float(np.max(np.abs(curvature[np.isfinite(curvature)]), initial=0.0))
    return np.finfo(float).eps * largest if largest > 0.0 else 1.0


def _agree(probed: np.ndarray, mean: np.ndarray) -> bool:
    """Return whether probes are the same up to rounding; NaN is not."""
    size = np.abs(mean)
    return bool((np.abs(probed - mean) <= SAME * (size + size.max())).all())
