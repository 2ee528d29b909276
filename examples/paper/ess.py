"""Effective sample sizes as R-CODA has them, and autocorrelations."""

from __future__ import annotations

import numpy as np

__all__ = ["autocorrelation", "effective_size"]


def effective_size(x: np.ndarray) -> float:
    """Effective size of a series, shape (n,): n times its variance over its spectrum at zero.

    As `effectiveSize` of R-CODA: the spectrum at frequency zero is that of an autoregressive model
    (its `spectrum0.ar`), fitted by the Yule-Walker equations, of the order that Akaike's criterion
    takes among 0 to 10 log10(n) (R's `ar`).

    References
    ----------
    Plummer, M., Best, N., Cowles, K. and Vines, K. (2006). CODA: convergence diagnosis and output
    analysis for MCMC. R News 6, 7-11.
    Heidelberger, P. and Welch, P. D. (1981). A spectral method for confidence interval generation
    and run length control in simulations. Communications of the ACM 24, 233-245.
    """
    n = len(x)
    highest = min(n - 1, int(10.0 * np.log10(n)))
    gamma = _autocovariance(x, highest)
    if gamma[0] <= 0.0:
        return 0.0
    # Levinson's recursion: the model of each order from that of the order below.
    phi, variance = np.zeros(0), gamma[0]
    least, spectrum = n * np.log(variance), variance * n / (n - 1)
    for order in range(1, highest + 1):
        reflection = (gamma[order] - phi @ gamma[1:order][::-1]) / variance
        phi = np.append(phi - reflection * phi[::-1], reflection)
        variance *= 1.0 - reflection**2
        criterion = n * np.log(variance) + 2.0 * order
        if criterion < least:
            least = criterion
            spectrum = variance * n / (n - order - 1) / (1.0 - phi.sum()) ** 2
    return float(n * np.var(x, ddof=1) / spectrum)


def autocorrelation(x: np.ndarray, lags: int) -> np.ndarray:
    """Autocorrelations of a series at lags 0 to `lags`, shape (lags + 1,)."""
    gamma = _autocovariance(x, lags)
    return gamma / gamma[0]


def _autocovariance(x: np.ndarray, lags: int) -> np.ndarray:
    x = x - x.mean()
    power = np.abs(np.fft.rfft(x, 2 * len(x))) ** 2
    return np.fft.irfft(power)[: lags + 1] / len(x)
