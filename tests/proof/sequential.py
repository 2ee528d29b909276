"""Tests with exact p-values, one after the other, that an exact sampler hardly ever fails."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Verdict", "test_in_stages"]

#: Stages at most, and how many times more draws there are from the second one on.
STAGES, MORE = 5, 4


@dataclass(frozen=True)
class Verdict:
    """What a test has come to.

    Attributes
    ----------
    failed : bool
    p_values : ndarray
        Those of the last stage.
    stages : int
    draws : int
        Of all stages.
    """

    failed: bool
    p_values: np.ndarray
    stages: int
    draws: int


def test_in_stages(p_values: Callable[[int], np.ndarray], n: int, alarm: float) -> Verdict:
    """Test until it is clear: an exact sampler fails with a probability of at most `alarm`.

    Algorithm 3 of Gandy & Scott (2020): what looks suspicious is tested again with more draws.

    Parameters
    ----------
    p_values : callable
        From a number of draws, which are new ones each time, to valid p-values.
    n : int
        Draws of the first stage.
    alarm : float

    References
    ----------
    Gandy, A. and Scott, J. (2020). Unit testing for MCMC and other Monte Carlo methods.
    arXiv:2001.06465.
    """
    surely = alarm / STAGES
    perhaps, total = surely ** (1.0 / STAGES), 0
    for stage in range(1, STAGES + 1):
        found = p_values(n)
        total += n
        smallest = len(found) * float(np.min(found))
        if smallest <= surely:
            return Verdict(True, found, stage, total)
        if smallest > perhaps + surely:
            break
        surely /= perhaps
        if stage == 1:
            n *= MORE
    return Verdict(False, found, stage, total)


test_in_stages.__test__ = False  # type: ignore[attr-defined]  # no test of pytest's
