"""The augmented density p(theta, z | data), ready for kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.anchor import Anchor
from pymc_flymc.bounds import Bound, QuadraticStatistics, log_odds
from pymc_flymc.density import DensityGraph
from pymc_flymc.design import Design
from pymc_flymc.kernels.conditional import Geometry, kernels
from pymc_flymc.likelihoods import Likelihood
from pymc_flymc.native import NativeFunction, compile_log_factor, read_only
from pymc_flymc.passes import iterate_blocks
from pymc_flymc.resampling import ImplicitResampling, Levels, Resampling
from pymc_flymc.rows import Rows
from pymc_flymc.shared import SharedArray

__all__ = ["Target", "build_target"]

#: Proposal probability of a dark row, in units of the probability that it is bright. Below one, a
#: sweep costs fewer queries than there are bright rows; the mixing of theta is hardly touched.
Q_PER_BRIGHT = 0.5


@dataclass
class Target:
    """All that kernels read and never write. Shared by all chains.

    Attributes
    ----------
    graph : DensityGraph
    likelihood : Likelihood
    bound : Bound or None
    n_others : int
        Number of foreign parameters, which each chain appends to the statistics.
    statistics : ndarray, float64
        Packed statistics of the collapsed bound (empty without a bound).
    geometry : Geometry
    data : Data
    expected_bright : float
        Bright rows expected over the Laplace approximation.
    log_factor : NativeFunction
        From `compile_factor`.
    density : NativeFunction
        Log prior and collapsed bound.
    """

    graph: DensityGraph
    likelihood: Likelihood
    bound: Bound | None
    n_others: int
    statistics: np.ndarray
    geometry: Geometry
    data: Data
    expected_bright: float
    log_factor: NativeFunction

    def __post_init__(self) -> None:
        self.density = self.graph.compile(self.bound is not None, self.n_others)
        kernels(self.data.rows.X.dtype)  # loaded here, they are there in every forked chain

    def __getstate__(self) -> dict[str, Any]:
        """Graphs travel to other processes, machine code does not."""
        return {k: v for k, v in self.__dict__.items() if k not in ("density", "log_factor")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.log_factor = compile_factor(self.likelihood, self.bound)
        self.__post_init__()


class Data:
    """What there is of every row.

    Attributes
    ----------
    rows : Rows
        Design (the user's own memory where possible) and the constants of the bound.
    levels : Levels or None
        Proposal probabilities of implicit resampling.
    """

    def __init__(self, rows: Rows, levels: Levels | None) -> None:
        self.rows = rows
        self.levels = levels
        self._shared: dict[str, SharedArray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Row-sized arrays travel as the name of one file, see `SharedArray`."""
        if self._shared is None:
            arrays = {name: getattr(self.rows, name) for name in ("X", "offset", "constants")}
            if self.levels is not None:
                arrays |= {name: getattr(self.levels, name) for name in ("level", "order")}
            self._shared = {name: SharedArray(array) for name, array in arrays.items()}
        levels = self.levels
        return {
            "shared": self._shared,
            "intercept": self.rows.intercept,
            "levels": None if levels is None else (levels.q, levels.start),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = {name: read_only(shared.array) for name, shared in state["shared"].items()}
        levels = state["levels"]
        if levels is not None:
            levels = Levels(levels[0], arrays.pop("level"), arrays.pop("order"), levels[1])
        self.__init__(Rows(intercept=state["intercept"], **arrays), levels)  # type: ignore[misc]
        self._shared = state["shared"]


def build_target(
    graph: DensityGraph,
    likelihood: Likelihood,
    y: np.ndarray,
    design: Design,
    bound: Bound | None,
    resampling: Resampling,
    anchor: Anchor,
    n_others: int,
) -> Target:
    """Compute the statistics of a bound and the constants of all rows, in one pass over the data.

    Raises
    ------
    ValueError
        If the bound is not valid for the likelihood, or has settings for another number of rows.
    """
    geometry = Geometry(anchor.theta, anchor.factor)
    if bound is not None and likelihood.name not in bound.families:
        raise ValueError(
            f"the {bound.name} bound is for {', '.join(bound.families)} likelihoods, "
            f"not for {likelihood.name}"
        )
    log_factor = compile_factor(likelihood, bound)
    levels, statistics, expected_bright = None, np.empty(0), float(design.n_rows)
    if bound is None:
        constants = np.asarray(y, dtype=np.float64)[:, None]
    else:
        constants, q, packed, expected_bright = _bound_pass(design, y, bound, log_factor, anchor)
        statistics = packed.pack()
        if isinstance(resampling, ImplicitResampling):
            levels = (
                Levels.by_row(Q_PER_BRIGHT * q)
                if resampling.q is None
                else Levels.single(resampling.q, design.n_rows)
            )
    rows = Rows(
        read_only(design.X), read_only(design.offset), int(design.intercept), read_only(constants)
    )
    data = Data(rows, levels)
    return Target(
        graph,
        likelihood,
        bound,
        n_others,
        statistics,
        geometry,
        data,
        expected_bright,
        log_factor,
    )


def compile_factor(likelihood: Likelihood, bound: Bound | None) -> NativeFunction:
    """Native log factor of a bright row: log(L/B - 1), or log L where there is no bound."""
    eta = pt.vector("eta", dtype="float64")
    n_constants = 1 if bound is None else bound.n_constants
    constants = pt.matrix("constants", dtype="float64", shape=(None, n_constants))
    if bound is None:
        return compile_log_factor(eta, constants, likelihood.log_likelihood(eta, constants[:, 0]))
    return compile_log_factor(eta, constants, log_odds(bound.gap(eta, constants)))


def _bound_pass(
    design: Design, y: np.ndarray, bound: Bound, log_factor: NativeFunction, anchor: Anchor
) -> tuple[np.ndarray, np.ndarray, QuadraticStatistics, float]:
    """Constants, probability of being bright, and statistics, of all rows."""

    def gap(eta: np.ndarray, constants: np.ndarray) -> np.ndarray:
        out = np.empty(len(eta))
        log_factor(eta, constants, out)
        return np.logaddexp(0.0, out)  # log odds = log(exp(gap) - 1)

    constants = np.empty((design.n_rows, bound.n_constants))
    bright = np.empty(design.n_rows, np.float32)
    statistics = QuadraticStatistics(anchor.w)
    for rows, x in iterate_blocks(design):
        eta = x @ anchor.w
        if design.offset.size:
            eta += design.offset[rows]
        # Mean over the Laplace law of eta by Gauss-Hermite quadrature with three nodes.
        reach = np.sqrt(3.0) * np.linalg.norm(x @ anchor.w_factor, axis=1)
        tightness = bound.tightness(eta, rows)
        tight = bound.constants(tightness, y[rows], np.zeros(len(eta)))
        middle, ends = gap(eta, tight), (gap(eta - reach, tight), gap(eta + reach, tight))
        spread = np.maximum(ends[0] + ends[1] - 2.0 * middle, 0.0) / 6.0
        slack = bound.slack * spread
        constants[rows] = bound.constants(tightness, y[rows], slack)
        bright[rows] = -np.expm1(-(middle + spread + slack))
        a, b, c = bound.coefficients(tightness, y[rows])
        # The very slack that the rows carry: the collapsed sum must be the sum over the rows.
        statistics.add(x, eta, a, b, c - slack)
    return constants, bright, statistics, float(bright.sum(dtype=np.float64))
