"""Schemes for resampling the brightness, as a user chooses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from pymc_flymc.errors import check, check_choice, is_number, is_positive_integer
from pymc_flymc.kernels import sweeps
from pymc_flymc.kernels.factors import CHUNK
from pymc_flymc.kernels.native import read_only


@dataclass(frozen=True)
class ImplicitResampling:
    """Metropolis-Hastings updates of z, proposed by geometric skips.

    Maclaurin & Adams (2014), Algorithm 2. A dark row is proposed with probability q per sweep: the
    likelihood of a row is read only if it is proposed.

    Parameters
    ----------
    q : float, optional
        The same probability for all rows, 0 < q <= 1, as in the paper. By default q differs between
        rows, in proportion to the probability of being bright that is expected over the posterior.
    ratio : float, default 0.5
        The default q in units of that probability. Below one, a sweep costs fewer queries than
        there are bright rows; the mixing of the parameters is almost the same.
    sweeps : int, default 1
        Sweeps after each update of the parameters.

    See Also
    --------
    ExplicitResampling : the paper's other algorithm.

    Examples
    --------
    One probability for all rows, as in the paper:

    >>> with model:
    ...     step = FireflyMH(bound=JaakkolaJordan(), brightness=ImplicitResampling(q=0.01))
    """

    q: float | None = None
    ratio: float = 0.5
    sweeps: int = 1

    def __post_init__(self) -> None:
        q, ratio, sweeps, name = self.q, self.ratio, self.sweeps, "ImplicitResampling"
        good = q is None or (is_number(q) and 0 < q <= 1)
        check(good, f"{name}: q", "None or a number in (0, 1]", q)
        good = is_number(ratio) and 0 < ratio < np.inf
        check(good, f"{name}: ratio", "a positive number", ratio)
        check(is_positive_integer(sweeps), f"{name}: sweeps", "a positive integer", sweeps)


@dataclass(frozen=True)
class ExplicitResampling:
    """Gibbs updates of z for a subset of the rows (Maclaurin & Adams 2014, Algorithm 1).

    Parameters
    ----------
    fraction : float, default 0.01
        Size of the subset as a fraction of the rows, 0 < fraction <= 1.
    scheme : {"with_replacement", "without_replacement", "cycle"}
        How the subset is chosen. "cycle" goes through the rows in order.

    See Also
    --------
    ImplicitResampling : reads fewer rows.

    Examples
    --------
    >>> with model:
    ...     brightness = ExplicitResampling(fraction=0.01, scheme="cycle")
    ...     step = FireflyMH(bound=JaakkolaJordan(), brightness=brightness)
    """

    fraction: float = 0.01
    scheme: Literal["with_replacement", "without_replacement", "cycle"] = "with_replacement"

    def __post_init__(self) -> None:
        good = is_number(self.fraction) and 0 < self.fraction <= 1
        check(good, "ExplicitResampling: fraction", "a number in (0, 1]", self.fraction)
        check_choice("ExplicitResampling: scheme", self.scheme, _SCHEMES)


_SCHEMES = {
    "with_replacement": sweeps.WITH_REPLACEMENT,
    "without_replacement": sweeps.WITHOUT_REPLACEMENT,
    "cycle": sweeps.CYCLE,
}

Resampling = ImplicitResampling | ExplicitResampling


class Levels(NamedTuple):
    """Rows grouped by their probability of being proposed, for implicit resampling."""

    q: np.ndarray  #: Probability of each level, (L,).
    level: np.ndarray  #: Level of each row, (N,).
    order: np.ndarray  #: Rows sorted by level, or by group, (N,).
    start: np.ndarray  #: Where each level, or group, starts in `order`, (L + 1,) or (G + 1,).

    @classmethod
    def of(cls, resampling: ImplicitResampling, bright: np.ndarray) -> Levels:
        """Return the levels of a scheme, from the rows' expected probabilities of being bright."""
        if resampling.q is None:
            return cls.by_row(resampling.ratio * bright)
        return cls.single(resampling.q, len(bright))

    @classmethod
    def single(cls, q: float, n_rows: int) -> Levels:
        """Return levels with one probability for all rows."""
        level, order = np.zeros(n_rows, np.uint8), np.arange(n_rows, dtype=np.int32)
        return cls(np.array([q]), read_only(level), read_only(order), np.array([0, n_rows]))

    def by_group(self, codes: np.ndarray, n_groups: int) -> Levels:
        """Return the same levels with rows sorted by their groups instead, shape (N,)."""
        order, start = _sorted(codes, n_groups)
        return self._replace(order=order, start=start)

    @classmethod
    def by_row(cls, q: np.ndarray) -> Levels:
        """Return levels at the powers of two below each row's q; any q leaves the sampler exact."""
        floor = 1.0 / len(q)  # rows that are almost never bright: one proposal per sweep among all
        level = np.ceil(-np.log2(np.clip(q, floor, 1.0))).astype(np.uint8)
        n_levels = int(level.max()) + 1
        return cls(0.5 ** np.arange(n_levels), read_only(level), *_sorted(level, n_levels))


def _sorted(codes: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows sorted by codes from 0 to n - 1, and where each code starts."""
    order = np.argsort(codes, kind="stable").astype(np.int32)
    start = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=n))])
    return read_only(order), start.astype(np.int64)


def make_plan(
    resampling: Resampling | None, n_rows: int, levels: Levels | None, cursor: np.ndarray
) -> sweeps.Plan:
    """Return the native form of a resampling scheme, or of none, with the buffers of one chain."""
    scheme, size, stamp, repeats = sweeps.NONE, 0, np.zeros(0, np.int64), 1
    if isinstance(resampling, ImplicitResampling):
        scheme, repeats = sweeps.IMPLICIT, resampling.sweeps
    elif isinstance(resampling, ExplicitResampling):
        scheme = _SCHEMES[resampling.scheme]
        size = max(1, round(resampling.fraction * n_rows))
        if size == n_rows and scheme == sweeps.WITHOUT_REPLACEMENT:
            scheme = sweeps.CYCLE  # every row once, in order: the order makes no difference
        if scheme == sweeps.WITHOUT_REPLACEMENT:
            stamp = np.zeros(n_rows, np.int64)
    if levels is None:
        nobody = read_only(np.zeros(0, np.uint8)), read_only(np.zeros(0, np.int32))
        levels = Levels(np.zeros(0), *nobody, np.zeros(1, np.int64))
    return sweeps.Plan(
        scheme=scheme,
        sweeps=repeats,
        size=size,
        cursor=cursor,
        stamp=stamp,
        stamp_now=np.zeros(1, np.int64),
        q=levels.q,
        order=levels.order,
        start=levels.start,
        level=levels.level,
        candidates=np.zeros(CHUNK, np.int32),
        log_factor=np.zeros(CHUNK),
    )
