"""Warnings of a chain that was stuck, and of proposals that do not reach the posterior's tails.

R-hat and effective sample sizes see neither: they judge the draws that there are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_flymc.compat.arviz import pareto_index

__all__ = ["STATISTICS", "ChainDiagnostics"]

#: Types of the statistics of a draw. The last one PyMC shows, and drops.
STATISTICS: dict[str, Any] = {
    "moved": (np.bool_, []),
    "distance": (np.float64, []),
    "log_weight": (np.float64, []),
    "warning": (SamplerWarning, None),
}

#: A chain is stuck if it stays for this share of its draws in a row, this many at least, and its
#: acceptance rate makes that less probable than this. From a share of MOST on it is in any case.
LONG, FEWEST, IMPROBABLE = 0.1, 50, 1e-4
MOST = 0.5
#: Weights of fewer states have no tail to look at.
ENOUGH = 200
#: Weights with a larger Pareto index vary too much (Vehtari et al. 2024). From 1/2 on a chain of
#: independent proposals has an infinite autocorrelation time; estimates of the index are rough.
LARGEST_TAIL_INDEX = 0.7
#: How many times the median the largest weight must be for that to be a cause for concern.
OUTSTANDING = 10.0


class ChainDiagnostics:
    """Keeps two numbers for each draw after tuning, and judges them at the last draw.

    Parameters
    ----------
    draws : int
        Number of draws after tuning.
    """

    def __init__(self, draws: int) -> None:
        self._draws = draws
        self._moved: list[bool] = []
        self._log_weights: list[float] = []

    def statistics(self, chain: Any, before: np.ndarray) -> dict[str, Any]:
        """Return `STATISTICS` of a draw, but for the warning.

        Parameters
        ----------
        chain : FireflyChain or BatchChain
        before : ndarray, shape (D,)
            Parameters before the draw.
        """
        v = chain.state.v
        return {
            "moved": bool((before != chain.state.theta).any()),
            "distance": math.sqrt(v @ v),
            "log_weight": chain.log_weight,
        }

    def warning(self, statistics: dict[str, Any], tuning: bool) -> SamplerWarning | None:
        """Return the warning that goes with a draw.

        Parameters
        ----------
        statistics : dict
            Of the draw.
        tuning : bool
            Whether the chain still tunes: then nothing is kept.
        """
        if tuning:
            return None
        trouble = self.record(statistics["moved"], statistics["log_weight"])
        return trouble and SamplerWarning(WarningType.CONVERGENCE, trouble, "warn")

    def record(self, moved: bool, log_weight: float) -> str | None:
        """Record a draw; with the last one return what is wrong with all of them.

        Parameters
        ----------
        moved : bool
            Whether the parameters are others than before.
        log_weight : float
            Of the state among joint proposals, NaN if the chain has none.
        """
        self._moved.append(moved)
        self._log_weights.append(log_weight)
        if len(self._moved) != self._draws:
            return None
        return " ".join(filter(None, (self._stuck(), self._heavy_tails()))) or None

    def _stuck(self) -> str | None:
        moved = np.array(self._moved)
        n, longest = len(moved), _longest_stay(moved)
        if longest < max(FEWEST, LONG * n):
            return None
        # If each draw stayed with the same probability, stays so long would begin after so many
        # moves.
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
        # A state of a large weight w is left with a probability in proportion to 1 / w, and is w
        # times as probable as it is among proposals: the states that a chain comes to, each taken
        # once, have weights with the tail of those of proposals.
        reached = np.array(self._log_weights)[self._moved]
        reached = reached[np.isfinite(reached)]
        if len(reached) < ENOUGH or reached.max() - np.median(reached) < np.log(OUTSTANDING):
            return None
        index = pareto_index(reached)
        if not index > LARGEST_TAIL_INDEX:
            return None
        return (
            f"Firefly: the weights of a chain's joint proposals vary too much (Pareto k = "
            f"{index:.2f}, above {LARGEST_TAIL_INDEX}): the posterior has heavier tails than what "
            "proposals are drawn from, and the chain may stay in them for long. Take moves given "
            "the brightness: FireflyHMC() or FireflyMH(kernel='metropolis')."
        )


def _longest_stay(moved: np.ndarray) -> int:
    """Return the largest number of draws in a row, shape (n,), that did not move."""
    ends = np.flatnonzero(np.concatenate([[True], moved, [True]]))
    return int(np.diff(ends).max()) - 1
