"""Draws of a step, by the thousand a millisecond: its own chain, without the loop of PyMC."""

from typing import Any

import numpy as np

__all__ = ["sample"]


def sample(
    step: Any,
    start: dict[str, np.ndarray],
    seed: int,
    tune: int,
    draws: int,
    transitions: int,
    longer: int = 1,
) -> np.ndarray:
    """Sample chains as ``pm.sample`` does, each tuned by the step and then run by its kernel.

    Parameters
    ----------
    step : FireflyStep
    start : dict
        A point, from which the step goes to its own start.
    seed : int
    tune, draws : int
        Draws of each chain, while tuning and after.
    transitions : int
        The most that a chain makes after tuning. A draw has no more than its share of them, and no
        more than tuning has chosen.
    longer : int
        So many times more of them.

    Returns
    -------
    ndarray, shape (2, draws, D)
        Unconstrained parameters, in the order of ``step.vars``.
    """
    found, initial = [], step.sampling_state
    for rng in np.random.default_rng(seed).spawn(2):
        step.sampling_state = initial
        step.setup_chain(rng, tune, draws)
        step.tune, point = True, start
        for _ in range(tune):
            point, _ = step.step(point)
        step.stop_tuning()
        chain = step.chain
        each = longer * min(step.tuning.transitions, max(1, transitions // draws))
        out = np.empty((draws, len(chain.state.theta)))
        for i in range(draws):
            chain.advance(step.rng, each, 0.0)
            out[i] = chain.state.theta
        found.append(out)
    return np.array(found)
