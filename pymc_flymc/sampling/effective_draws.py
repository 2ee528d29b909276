"""Effective sample sizes of many parameters at once."""

import numpy as np


def effective_draws(draws: np.ndarray) -> np.ndarray:
    """Return effective sample sizes of a chain's draws, by Geyer's monotone sequence.

    ArviZ computes them one parameter after the other, at some milliseconds each.

    Parameters
    ----------
    draws : ndarray, shape (n, D)

    Returns
    -------
    ndarray, shape (D,)
        Zero for a parameter that never moved.

    References
    ----------
    Geyer (1992). Practical Markov chain Monte Carlo. Statistical Science 7, 473-483.
    """
    n = len(draws)
    centred = draws - draws.mean(axis=0)
    stuck = np.all(draws == draws[0], axis=0)
    centred[0, stuck] = 1.0  # in place of a division by zero
    spectrum = np.fft.rfft(centred, 2 * n, axis=0)
    correlations = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n, axis=0)[: n - n % 2]
    correlations /= correlations[0]
    pairs = correlations[::2] + correlations[1::2]
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    pairs = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    times = np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / n)
    return np.where(stuck, 0.0, n / times)


def evenly(n: int, most: int) -> np.ndarray:
    """Return numbers from 0 to n - 1: all of them, or an even choice."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
