"""Warnings of a chain that was stuck, or does not reach all regions of the posterior."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_flymc.compat.arviz import pareto_index
from pymc_flymc.order import first_largest


def evenly(n: int, most: int) -> np.ndarray:
    """Return numbers from 0 to n - 1: all of them, or an even choice."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


#: Types of the statistics of a draw. The last one PyMC shows, and drops.
STATISTICS: dict[str, Any] = {
    "moved": (np.bool_, []),
    "distance": (np.float64, []),
    "log_weight": (np.float64, []),
    "rescaling_acceptance_probability": (np.float64, []),
    "warning": (SamplerWarning, None),
}

#: A chain is stuck if it stays for this share of its draws in a row, this many at least, and its
#: acceptance rate makes that less probable than this; or if it stays for a share of MOST.
LONG, FEWEST_STUCK, IMPROBABLE = 0.1, 50, 1e-4
MOST = 0.5
#: Weights of fewer states have no tail to look at.
ENOUGH = 200
#: Weights with a larger Pareto index vary too much (Vehtari et al. 2024). From 1/2 on a chain of
#: independent proposals has an infinite autocorrelation time; estimates of the index are rough.
LARGEST_TAIL_INDEX = 0.7
#: How many times the median the largest weight must be for that to be a cause for concern.
OUTSTANDING = 10.0
#: What counts as the edge of a chain: this share of its draws.
EDGE = 0.05
#: A chain whose proposals from an edge are accepted by less than this share of what is usual may
#: not have reached what lies beyond it. Of chains of 1,000 to 4,000 draws that missed the neck of a
#: funnel two thirds had less (where log tau was smallest), of 72 on tiny models whose tails are as
#: hard as Taylor bounds make them one had.
SMALLEST_SHARE = 0.15


class Drawn(NamedTuple):
    """What is kept of a draw.

    Attributes
    ----------
    moved : bool
        Whether the parameters are others than before.
    log_weight : float
        Of the state under joint updates; NaN under conditional ones.
    acceptance_probability, rescaling_acceptance_probability : float
        Mean acceptance probabilities on the way to it, of moves of scales NaN if there are none.
    parameters : ndarray, shape (K,)
    """

    moved: bool
    log_weight: float
    acceptance_probability: float
    rescaling_acceptance_probability: float
    parameters: np.ndarray


class ChainDiagnostics:
    """Keeps a few numbers of each draw after tuning, and judges all of them at the last draw.

    `draws`: number of draws after tuning. `names`: of the parameters that are looked at. `rescaled`
    (K,), or bool: whether each is among `SharedScales.moved`; in doubt, yes.
    """

    def __init__(
        self, draws: int, names: Sequence[str], rescaled: np.ndarray | bool = True
    ) -> None:
        self._draws, self._names = draws, names
        self._rescaled = np.broadcast_to(rescaled, len(names))
        self._drawn: list[Drawn] = []

    def statistics(self, chain: Any, before: np.ndarray) -> dict[str, Any]:
        """Return `STATISTICS` of a draw, but for the warning.

        `before` (D,): parameters before the draw.
        """
        v = chain.state.v
        return {
            "moved": bool((before != chain.state.theta).any()),
            "distance": math.sqrt(v @ v),
            "log_weight": chain.log_weight,
            "rescaling_acceptance_probability": chain.rescaling_acceptance_probability,
        }

    def warning(
        self, statistics: dict[str, Any], parameters: np.ndarray, tuning: bool
    ) -> SamplerWarning | None:
        """Return the warning that goes with a draw.

        `statistics`: of the draw. `parameters` (K,): not changed later. `tuning`: whether the chain
        still tunes, in which case nothing is kept.
        """
        if tuning:
            return None
        known = {name: statistics[name] for name in Drawn._fields if name in statistics}
        trouble = self.record(Drawn(**known, parameters=parameters))
        return trouble and SamplerWarning(WarningType.CONVERGENCE, trouble, "warn")

    def record(self, drawn: Drawn) -> str | None:
        """Record a draw; with the last one return what is wrong with all of them."""
        self._drawn.append(drawn)
        if len(self._drawn) != self._draws:
            return None
        return " ".join(filter(None, (self._stuck(), self._heavy_tails(), self._edge()))) or None

    def _stuck(self) -> str | None:
        moved = np.array([drawn.moved for drawn in self._drawn])
        n, longest = len(moved), _longest_stay(moved)
        if longest < max(FEWEST_STUCK, LONG * n):
            return None
        # If each draw stayed with the same probability, so many stays of this length would be
        # expected: one may begin at the first draw, and after each move.
        stay = 1.0 - np.mean(moved)
        probable = (1.0 + np.count_nonzero(moved)) * stay**longest > IMPROBABLE
        if probable and longest < MOST * n:
            return None
        return (
            f"Firefly: a chain was stuck for {longest:,} of {n:,} draws in a row. What it says of "
            "that region is not to be relied upon: run longer chains, take other moves (FireflyMH, "
            "FireflyHMC, FireflySlice), or write the model in another way, for example with "
            "non-centred effects."
        )

    def _heavy_tails(self) -> str | None:
        # A state of large weight w is left with a probability in proportion to 1 / w, and it is w
        # times as probable as among proposals. So the states that a chain visits, each counted
        # once, have weights with the same tail as those of proposals.
        index = tail_index(np.array([drawn.log_weight for drawn in self._drawn if drawn.moved]))
        if not index > LARGEST_TAIL_INDEX:
            return None
        return (
            f"Firefly: the weights of a chain's proposals vary too much (Pareto k = "
            f"{index:.2f}, above {LARGEST_TAIL_INDEX}): the posterior has heavier tails than what "
            "proposals are drawn from, and the chain may stay in them for long. Take conditional "
            "moves, FireflyHMC(), or where there are few rows bound=None, which reads all of them."
        )

    def _edge(self) -> str | None:
        # Where proposals are hardly ever accepted, a chain stays for long, so that it hardly ever
        # comes there either. It may then never have seen what lies beyond, and all else looks well.
        # A chain mixes fast only if its rejection rates are bounded away from one (Roberts &
        # Tweedie 1996).
        if len(self._drawn) <= ENOUGH or not self._names:
            return None
        usual, rescaling = np.array(
            [
                (each.acceptance_probability, each.rescaling_acceptance_probability)
                for each in self._drawn[1:]
            ]
        ).T[:, :, None]
        # For a scale, one kind of move that leads away from an edge is enough. Its own moves leave
        # all parameters but its effects where they are, and effects have no edge where it is small.
        accept = np.where(self._rescaled, np.fmax(usual, rescaling), usual)
        if not accept.any(axis=0).all():
            return None
        points = np.array([drawn.parameters for drawn in self._drawn[:-1]])
        n = round(EDGE * len(accept))
        by_place = np.take_along_axis(accept, np.argsort(points, axis=0, kind="stable"), axis=0)
        shares = np.stack([by_place[:n].mean(0), by_place[-n:].mean(0)]) / accept.mean(0)
        side, j = divmod(first_largest(-shares), len(self._names))
        if not shares[side, j] < SMALLEST_SHARE:
            return None
        where = f"{self._names[j]} is {('smallest', 'largest')[side]}"
        return (
            f"Firefly: where a chain's {where}, its proposals were accepted {shares[side, j]:.2f} "
            "times as often as elsewhere. It may have missed what lies beyond. Write effects that "
            "share a scale without a centre (tau * z), give scales priors that keep them from "
            "zero, or compare with moves other than these: FireflyMH(kernel='local') for effects, "
            "FireflySlice, or bound=None, which reads all rows."
        )


def tail_index(log_weights: np.ndarray) -> float:
    """Return the Pareto index of a chain's weights, NaN if they are few or none stands out.

    `log_weights` (n,): of the states that the chain has come to; those that are not finite are left
    out.
    """
    known = log_weights[np.isfinite(log_weights)]
    if len(known) < ENOUGH or known.max() - np.median(known) < np.log(OUTSTANDING):
        return np.nan
    return pareto_index(known)


def _longest_stay(moved: np.ndarray) -> int:
    """Return the largest number of draws in a row, shape (n,), that did not move."""
    ends = np.flatnonzero(np.concatenate([[True], moved, [True]]))
    return int(np.diff(ends).max()) - 1
