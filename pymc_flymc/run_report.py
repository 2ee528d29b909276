"""What a run says of itself once it is over, from what is saved of it."""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_flymc.reporting import count
from pymc_flymc.run_advice import advice_on_chains, advice_on_run
from pymc_flymc.run_numbers import Run


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
        If it was not sampled by one step of this package.

    See Also
    --------
    plot_cost : rows per effective draw of each parameter.
    plot_brightness : how often rows are bright.

    Examples
    --------
    >>> idata = pm.sample(step=FireflyMH())
    >>> pymc_flymc.report(idata)
    """
    run = Run(idata)
    return Report(_table(run), (*advice_on_run(run), *advice_on_chains(run)))


def _table(run: Run) -> dict[str, str]:
    """Return what there is to know."""
    slowest = f"{run.names[run.slowest]}, {run.effective:,.0f} effective draws of "
    slowest += f"{run.n_chains * run.n_draws:,}, R-hat {run.r_hats[run.slowest]:.3f}"
    moved = int(run.of("anchor_moved").any(axis=1).sum())
    share = run.bright / run.n_rows
    percent = "less than 0.01" if share < 1e-4 else f"{100 * share:.3g}"
    is_more = 0 < run.n_observed < run.n_rows  # as of ordered levels
    k = run.pareto_k if run.is_joint else np.nan
    weights = {"Pareto k of the weights": f"{k:.2f}"} if np.isfinite(k) else {}
    return {
        "moves": _moves(run),
        "rows": f"{run.n_rows:,}" + f" of {run.n_observed:,} observed values" * is_more,
        "rows per effective draw": count(run.read),
        "bright rows": f"{count(run.bright)} ({percent} %)",
        "acceptance": f"{run.accept:.2f}",
        **weights,
        "updates per draw": f"{run.mean('transitions'):,.0f}",
        "expansion point moved": f"in {moved} of {run.n_chains} chains" if moved else "no",
        "slowest parameter": slowest,
        **_times(run),
    }


def _times(run: Run) -> dict[str, str]:
    """Return how long the stages of the run took, as far as that was recorded."""
    times, parts = {}, run.setup_seconds
    if parts:
        listed = ", ".join(f"{what} {_seconds(took)}" for what, took in parts.items())
        times["set-up took"] = f"{_seconds(sum(parts.values()))} s ({listed})"
    if run.seconds is not None:
        times["sampling took"] = f"{_seconds(run.seconds)} s"
        if run.chain_seconds is not None:
            tuning, draws = map(_seconds, run.chain_seconds)
            times["sampling took"] += f" (per chain: tuning {tuning}, draws {draws})"
    return times


def _seconds(seconds: float) -> str:
    """Return seconds to two digits."""
    return f"{seconds:.2g}" if seconds < 99.5 else f"{seconds:,.0f}"


def _moves(run: Run) -> str:
    """Return what moves there were."""
    follows = run.follows_trajectories
    if run.is_joint:
        return "surrogate moves" if follows else "joint moves"
    if run.has_local_sweeps:
        return "local sweeps"
    kind = "slice" if run.has_slices else "Hamiltonian" if follows else "Metropolis"
    return f"{kind} moves, all rows" if run.reads_all else f"conditional {kind} moves"
