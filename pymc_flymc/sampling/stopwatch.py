"""How long the stages of a run take: the parts of its set-up, and each chain since it began."""

from time import perf_counter
from typing import Any

import numpy as np

#: Statistics with the seconds of the parts of a set-up, and what the parts are called.
SETUP = {
    "reading_time": "reading",
    "mode_time": "mode finding",
    "check_time": "checks",
    "choice_time": "choice of moves",
}
#: Types of the statistics, of which the last one is the time since the chain began.
TIMES: dict[str, Any] = dict.fromkeys((*SETUP, "elapsed_time"), (np.float64, []))


class Stopwatch:
    """Seconds that a step takes by the clock: for its set-up, and for the chain that runs."""

    def __init__(self) -> None:
        self._setup = dict.fromkeys(SETUP, 0.0)
        self._since = perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last call as that of a part of the set-up."""
        now = perf_counter()
        self._setup[part] += now - self._since
        self._since = now

    def begin_chain(self, elapsed: float = 0.0) -> None:
        """Begin the time of a chain, or go on with one that has taken so many seconds before."""
        self._since = perf_counter() - elapsed

    def statistics(self) -> dict[str, float]:
        """Return `TIMES` of a draw that ends now."""
        return {**self._setup, "elapsed_time": perf_counter() - self._since}
