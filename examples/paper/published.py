"""What the paper, and a report on its reproduction, have in their Table 1."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PAPER", "REPORT", "Published"]


class Published(NamedTuple):
    """Likelihood queries per iteration, effective samples per 1,000 iterations, speedup."""

    queries: float
    ess: float
    speedup: float


#: Maclaurin & Adams (2014). Regular MCMC by slices evaluates the density some ten times.
PAPER = {
    "mnist": {
        "regular": Published(12_214, 3.7, 1),
        "untuned": Published(6_252, 1.3, 0.7),
        "tuned": Published(207, 1.4, 22),
    },
    "cifar": {
        "regular": Published(18_000, 8.0, 1),
        "untuned": Published(8_058, 4.2, 1.2),
        "tuned": Published(654, 3.3, 11),
    },
    "molecules": {
        "regular": Published(18_182_764, 1.3, 1),
        "untuned": Published(2_753_428, 1.1, 5.7),
        "tuned": Published(575_528, 1.2, 29),
    },
}
#: A class project at Cambridge that repeated two of the experiments in 2016.
REPORT = {
    "mnist": {
        "regular": Published(12_214, 3.6, 1),
        "untuned": Published(6_252, 0.5, 0.271),
        "tuned": Published(207, 0.6, 9.834),
    },
    "cifar": {
        "regular": Published(18_000, 7.1, 1),
        "untuned": Published(7_997, 4.0, 1.268),
        "tuned": Published(662, 3.3, 12.638),
    },
}
