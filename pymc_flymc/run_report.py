"""What a run says of itself once it is over, from what is saved of it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.reporting import count
from pymc_flymc.sampling.diagnostics import ChainDiagnostics
from pymc_flymc.sampling.time_estimates import evenly, gradients_given

__all__ = ["Report", "report"]

#: Scalar parameters that are looked at, of more an even choice; and those whose correlations are.
LOOKED_AT, CORRELATED = 1000, 50
#: Draws, effective ones of the slowest parameter, for each parameter whose correlations are taken.
DRAWS_EACH = 20.0
#: Where R-hat is above, or fewer draws of a chain are effective, draws are not to be relied upon.
LARGEST_R_HAT, FEWEST_EFFECTIVE = 1.05, 25.0
#: Shares of bright rows, of accepted proposals and of evaluations that failed beyond which
#: something can be done.
MANY_BRIGHT, FEW_ACCEPTED, MANY_FAILED = 0.1, 0.15, 0.01

_HAMILTONIAN = "Hamiltonian trajectories given brightness"


@dataclass(frozen=True)
class Report:
    """A table of what a run did, and advice that follows; printed, or shown by notebooks.

    Attributes
    ----------
    table : dict of str
        Values by what they are of, as text.
    advice : tuple of str
        Sentences; empty where nothing is wrong.
    """

    table: dict[str, str]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        """Return the table and the advice as lines of text."""
        width = max(map(len, self.table))
        lines = [f"{name:<{width}}  {value}" for name, value in self.table.items()]
        return "\n".join([*lines, *(f"- {each}" for each in self.advice)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.table.items()
        )
        items = "".join(f"<li>{html.escape(each)}</li>" for each in self.advice)
        return f"<table>{rows}</table>" + f"<ul>{items}</ul>" * bool(items)


def report(idata: Any) -> Report:
    """Say how a run went: which moves it made, what they read, and what to do if that is much.

    Parameters
    ----------
    idata : DataTree
        What ``pm.sample`` returned, or what has been saved of it and loaded again: its groups
        ``posterior`` and ``sample_stats``.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If it was not sampled by a step of this package.

    See Also
    --------
    FireflyMH : what the statistics of its draws are.

    Examples
    --------
    >>> idata = pm.sample(step=FireflyMH())
    >>> pymc_flymc.report(idata)
    """
    run = _Run(idata)
    return Report(run.table(), tuple(run.advice()))


class _Run:
    """Numbers of a run."""

    def __init__(self, idata: Any) -> None:
        stats: Any = idata["sample_stats"] if "sample_stats" in idata.children else None
        if stats is None or "likelihood_queries" not in stats:
            raise ValueError(
                "report() is for draws of a Firefly step: this object's sample_stats have no "
                "likelihood_queries. Give it what pm.sample(step=FireflyMH()) returned"
            )
        import arviz as az  # takes a second, which who only samples need not wait

        self._stats = stats
        self.names, draws = _parameters(idata["posterior"])
        self.n_chains, self.n_draws, _ = draws.shape
        with np.errstate(invalid="ignore"):  # of what is constant both are NaN
            effective, self.r_hats = np.atleast_1d(az.ess(draws)), np.atleast_1d(az.rhat(draws))
        self.slowest = int(np.argmin(np.where(np.isfinite(effective), effective, np.inf)))
        self.effective = float(effective[self.slowest])
        self.n_rows = int(self._mean("n_rows"))
        self.bright, self.accept = self._mean("n_bright"), self._mean("accept")
        self.read = float(self._of("likelihood_queries").sum()) / self.effective
        most = int(min(CORRELATED, self.effective / DRAWS_EACH))
        self.nuts_gradients = _gradients(draws, most)

    def _of(self, name: str) -> np.ndarray:
        return np.asarray(self._stats[name], dtype=np.float64)

    def _mean(self, name: str) -> float:
        return float(self._of(name).mean())

    @property
    def is_joint(self) -> bool:
        """Whether brightness was drawn together with the parameters."""
        return bool(np.isfinite(self._of("log_weight")).any())

    @property
    def moves(self) -> str:
        """What moves there were."""
        follows = "n_steps" in self._stats and self._of("n_steps").any()
        if self.bright == self.n_rows:
            return "Hamiltonian trajectories, all rows" if follows else "updates that read all rows"
        if self.is_joint:
            return "trajectories through a surrogate" if follows else "joint moves"
        if "slice_width" in self._stats:
            return "slices given brightness"
        return _HAMILTONIAN if follows else "Metropolis updates given brightness"

    @property
    def nuts_rows(self) -> float:
        """Rows that NUTS would have read for an effective draw."""
        return self.nuts_gradients * self.n_rows

    def table(self) -> dict[str, str]:
        """Return what there is to know."""
        slowest = f"{self.names[self.slowest]}, {self.effective:,.0f} effective draws of "
        slowest += f"{self.n_chains * self.n_draws:,}, R-hat {self.r_hats[self.slowest]:.3f}"
        moved = int(self._of("anchor_moved").any(axis=1).sum())
        share, seconds = self.bright / self.n_rows, self._stats.attrs.get("sampling_time")
        percent = "less than 0.01" if share < 1e-4 else f"{100 * share:.3g}"
        took = {} if seconds is None else {"sampling took": f"{float(seconds):.3g} s"}
        return {
            "moves": self.moves,
            "rows": f"{self.n_rows:,}",
            "rows read for an effective draw": count(self.read),
            "NUTS would have read": f"about {float(f'{self.nuts_rows:.1e}'):,.0f}",
            "bright rows": f"{count(self.bright)} ({percent} %)",
            "acceptance": f"{self.accept:.2f}",
            "updates in a draw": f"{self._mean('transitions'):,.0f}",
            "expansion point moved": f"in {moved} of {self.n_chains} chains" if moved else "no",
            "slowest parameter": slowest,
            **took,
        }

    def advice(self) -> Iterator[str]:
        """Yield what should be done, if anything."""
        if self.read > self.nuts_rows:
            yield (
                "More rows were read than NUTS would have read: leave out step=, unless that is "
                "slower by the clock."
            )
        elif self.bright > MANY_BRIGHT * self.n_rows:
            yield (
                "Many rows are bright. The log of the set-up names columns that make them so, if "
                "there are: take logarithms of skewed ones, and put rare levels together. With few "
                "rows for each coefficient, all have to be read."
            )
        yield from self._trouble()
        if self.accept < FEW_ACCEPTED:
            yield (
                f"Only {100 * self.accept:.0f} % of the proposals were accepted: tune longer "
                "(tune=2000), or take FireflyHMC()."
            )
        failed = self._of("non_finite_ratios").sum() / self._of("transitions").sum()
        if failed > MANY_FAILED:
            yield (
                f"The density was NaN or infinite at {100 * failed:.0f} % of the proposals, which "
                "were rejected: look for logarithms and divisions in the model."
            )

    def _trouble(self) -> Iterator[str]:
        """Yield what is wrong with the draws."""
        worst = int(np.nanargmax(self.r_hats)) if np.isfinite(self.r_hats).any() else self.slowest
        bad = self.r_hats[worst] > LARGEST_R_HAT
        if bad or self.effective < FEWEST_EFFECTIVE * self.n_chains:
            name = self.names[worst if bad else self.slowest]
            yield (
                f"The chains have not converged, {name} last of all: {self._remedy()}; give the "
                "parameters that the data say little of narrower priors, and write effects that "
                "share a scale without a centre (tau * z)."
            )
        moved, weights = self._of("moved") > 0.5, self._of("log_weight")
        for chain in zip(moved, weights, strict=True):
            diagnostics = ChainDiagnostics(self.n_draws)
            *_, last = (diagnostics.record(*draw) for draw in zip(*chain, strict=True))
            if last:  # of one chain: what others have is alike
                yield last.removeprefix("Firefly: ")
                return

    def _remedy(self) -> str:
        if self.moves == _HAMILTONIAN or self.bright == self.n_rows:
            return "draw and tune longer (draws=4000, tune=2000)"
        return "take FireflyHMC(), or draw and tune longer (draws=4000, tune=2000)"


def _parameters(posterior: Any) -> tuple[list[str], np.ndarray]:
    """Return names and draws of scalar parameters, shape (chains, draws, D)."""
    variables = list(posterior.data_vars.values())
    draws = [v.transpose("chain", "draw", ...).to_numpy() for v in variables]
    flat = [each.reshape(*each.shape[:2], -1) for each in draws]
    ends = np.cumsum([each.shape[-1] for each in flat])
    names, columns = [], []
    for number in evenly(int(ends[-1]), LOOKED_AT):
        i = int(np.searchsorted(ends, number, side="right"))
        element = int(number - ends[i] + flat[i].shape[-1])
        columns.append(flat[i][..., element])
        names.append(_name(variables[i], np.unravel_index(element, draws[i].shape[2:])))
    return names, np.stack(columns, axis=-1)


def _name(variable: Any, at: tuple[Any, ...]) -> str:
    """Name an element of a variable by its coordinates, such as "beta[age]"."""
    dims = [dim for dim in variable.dims if dim not in ("chain", "draw")]
    labels = [str(variable[dim].to_numpy()[k]) for dim, k in zip(dims, at, strict=True)]
    return f"{variable.name}[{', '.join(labels)}]" if labels else str(variable.name)


def _gradients(draws: np.ndarray, most: int) -> float:
    """Gradients that NUTS takes for an effective draw, by the correlations of draws."""
    flat = draws.reshape(-1, draws.shape[-1])
    flat = flat[:, flat.std(axis=0) > 0.0]
    if flat.shape[1] < 2 or most < 2:
        return gradients_given(np.eye(1))
    return gradients_given(np.corrcoef(flat[:, evenly(flat.shape[1], most)], rowvar=False))
