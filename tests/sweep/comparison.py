r"""Draws against a posterior: standard scores whose errors are those of the draws themselves.

Chains are cut into batches. Means of a batch are independent and nearly normal where batches are
much longer than the chain remembers, so that the mean of all has Student's distribution around the
truth. A chain that never crosses into a tail has batches without any spread: there the variance
that draws of the posterior would have, :math:`p (1 - p) \tau / n`, takes its place, with the
autocorrelation time :math:`\tau` of the tails further in, and crossings are counted as a Poisson
variable of :math:`p n / \tau`.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy import special, stats

from tests.sweep.reference import Posterior

__all__ = ["Comparison", "compare"]

#: Batches of a chain.
BATCHES = 32
#: Mass of a tail, and of the tails further in from which its autocorrelation time may be learnt.
TAIL, LADDER = 1e-3, (1e-3, 1e-2)
#: Levels at which distribution functions are compared.
LEVELS = np.arange(1, 20) / 20.0
#: Crossings of a tail, as independent ones, that are expected if its score is to say anything.
ENOUGH_CROSSINGS = 20.0
#: Batches are long enough if that many autocorrelation times fit into one.
LONG_BATCHES = 5.0
#: Random signs of batches by which it is learnt how the levels' scores go together.
SIGNS = 400
#: Least spread of a chain that does not move.
SMALL = 1e-9


@dataclass
class Comparison:
    """What became of a comparison.

    Attributes
    ----------
    z : dict of float
        Standard scores by what was compared.
    shares : dict of float
        Of draws beyond each tail, in units of what there should be.
    crossings : float
        Independent crossings that are expected of the tail with the fewest.
    n_effective : float
        Independent draws that the draws of the slowest mean or variance are worth.
    long : bool
        Whether batches are long enough for the scores to be believed.
    """

    z: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    crossings: float = np.inf
    n_effective: float = np.inf
    long: bool = True

    @property
    def is_telling(self) -> bool:
        """Whether there are crossings and draws enough for the scores to say something."""
        return bool(self.long and self.crossings >= ENOUGH_CROSSINGS)


def compare(draws: np.ndarray, posterior: Posterior) -> Comparison:
    """Compare draws, shape (chains, draws, D), with a posterior: parts and tails of it.

    For each parameter mean, variance, both tails of the mass `TAIL`, and the distribution function;
    and what is outside the contour that leaves `TAIL` of the mass out.
    """
    found = Comparison()
    for d, x in enumerate(np.moveaxis(draws, 2, 0)):
        off = x - posterior.mean[d]
        _score(found, f"mean {d}", off, 0.0)
        _score(found, f"variance {d}", off**2, posterior.variance[d])
        low, high = posterior.quantiles(d, LADDER), posterior.quantiles(d, 1.0 - np.array(LADDER))
        _score_tail(found, f"low {d}", [x < at for at in low])
        _score_tail(found, f"high {d}", [x > at for at in high])
        _score_levels(found, f"whole {d}", x < posterior.quantiles(d, LEVELS)[:, None, None])
    log_density = posterior.log_density(draws.reshape(-1, draws.shape[2])).reshape(draws.shape[:2])
    # Not below: where a density is flat to the last digit there is no contour.
    contours = [posterior.contour(mass) for mass in LADDER]
    _score_tail(found, "contour", [log_density < at for at in contours])
    return found


def _batches(values: np.ndarray) -> np.ndarray:
    """Return means of batches of values (..., chains, draws), shape (..., batches)."""
    *outer, chains, n = values.shape
    length = n // BATCHES
    cut = values[..., : BATCHES * length].reshape(*outer, chains * BATCHES, length)
    return cut.mean(axis=-1)


def _score(found: Comparison, what: str, values: np.ndarray, truth: float) -> None:
    """Score a mean by the spread of batches; its ratio has Student's distribution."""
    means = _batches(values)
    error = means.std(ddof=1) / np.sqrt(len(means))
    t = (means.mean() - truth) / max(error, SMALL)
    found.z[what] = _as_normal(t, len(means) - 1)
    time = values.size * error**2 / max(values.var(), SMALL)
    found.n_effective = float(min(found.n_effective, values.size / max(time, 1e-3)))
    found.long &= bool(time * LONG_BATCHES < values.shape[1] // BATCHES)


def _as_normal(t: float, freedom: int) -> float:
    return float(-np.sign(t) * special.ndtri_exp(stats.t.logsf(abs(t), freedom)))


def _score_tail(found: Comparison, what: str, crossed: list[np.ndarray]) -> None:
    """Score the share of draws in a tail, given whether they are in it and in those further in."""
    n = crossed[0].size
    times = [
        n * _batches(each).var(ddof=1) / (len(each) * BATCHES) / (mass * (1.0 - mass))
        for each, mass in zip(crossed, LADDER, strict=True)
    ]
    expected = TAIL * n / max(1.0, *times)
    count = crossed[0].mean() / TAIL * expected
    # P(fewer), in the middle between strictly and not, of a Poisson variable or in between.
    below = 0.5 * (special.gammaincc(count + 1.0, expected) + special.gammaincc(count, expected))
    above = 0.5 * (special.gammainc(count + 1.0, expected) + special.gammainc(count, expected))
    if count == 0.0:
        below, above = 0.5 * np.exp(-expected), 1.0
    z = special.ndtri(below) if below < above else -special.ndtri(above)
    found.z[what] = float(np.clip(z, -99.0, 99.0))
    found.shares[what] = float(crossed[0].mean() / TAIL)
    found.crossings = float(min(found.crossings, expected))


def _score_levels(found: Comparison, what: str, below: np.ndarray) -> None:
    """Score the largest difference of distribution functions, in units of its error.

    How many independent levels there are is learnt from batches with random signs.
    """
    off = _batches(below) - LEVELS[:, None]
    error = np.maximum(off.std(axis=1, ddof=1), SMALL) / np.sqrt(off.shape[1])
    largest = np.max(np.abs(off.mean(axis=1)) / error)
    centred = off - off.mean(axis=1, keepdims=True)
    signs = np.random.default_rng(0).standard_normal((off.shape[1], SIGNS))
    typical = np.median(np.max(np.abs(centred @ signs) / (off.shape[1] * error[:, None]), axis=0))
    levels = np.log(0.5) / np.log1p(-2.0 * stats.norm.sf(typical))
    # P(the largest of so many is larger), in logarithms: it may be very small.
    one = np.log(2.0) + stats.t.logsf(largest, off.shape[1] - 1)
    log_p = one + np.log(levels)
    if one > -30.0:
        log_p = np.log(-np.expm1(levels * np.log1p(-np.exp(one))))
    found.z[what] = float(-special.ndtri_exp(min(log_p, np.log(0.999)) - np.log(2.0)))
