"""Whether samplers agree on the posterior, within Monte Carlo error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from examples.paper.running import Run

__all__ = ["Comparison", "compare_all"]

#: Chance that all comparisons of an experiment together may have of failing exact samplers.
FALSE_ALARMS = 0.01
#: With fewer effective draws, in the worse run, Monte Carlo errors of means and sds are not known.
FEWEST = np.array([[25.0], [100.0]])
#: Draws of a chain that are looked at, and parameters, evenly spread: errors take a while.
MOST, MOST_PARAMETERS = 5000, 100


@dataclass(frozen=True)
class Comparison:
    """Two runs' means and sds of all parameters.

    Attributes
    ----------
    first, second : str
    largest : float
        Largest difference of a mean or sd in units of its Monte Carlo standard error, over what is
        allowed: above one the runs disagree.
    errors : float
        The same difference in standard errors.
    compared, left_out : int
        Means and sds, and those without `FEWEST` effective draws in both runs.
    """

    first: str
    second: str
    largest: float
    errors: float
    compared: int
    left_out: int

    @property
    def agree(self) -> bool:
        """Whether no difference is larger than allowed."""
        return self.largest <= 1.0


def compare_all(runs: list[Run]) -> list[Comparison]:
    """Compare the first run, and the one with the most effective draws, with all others.

    What is allowed is a quantile of Student's t, with as many degrees of freedom as there are
    effective draws in the worse run, at a level that all comparisons share (Bonferroni).
    """
    best = max(range(len(runs)), key=lambda i: float(np.median(runs[i].ess)))
    pairs = [(0, i) for i in range(1, len(runs))]
    pairs += [(best, i) for i in range(1, len(runs)) if best not in (0, i)]
    summaries = [_summary(run) for run in runs]
    n_numbers = len(pairs) * summaries[0][0].size
    out = []
    for a, b in pairs:
        ess = np.minimum(summaries[a][2], summaries[b][2])
        kept = ess >= FEWEST
        error = np.hypot(summaries[a][1], summaries[b][1])
        z = np.abs(summaries[a][0] - summaries[b][0]) / error
        allowed = stats.t.isf(0.5 * FALSE_ALARMS / n_numbers, ess)
        labels = runs[a].line.label, runs[b].line.label
        ratio, z = (z / allowed)[kept], z[kept]
        largest = (float(ratio.max()), float(z.max())) if kept.any() else (np.nan, np.nan)
        out.append(Comparison(*labels, *largest, int(kept.sum()), int(np.sum(~kept))))
    return out


def _summary(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and sds, their errors, and their effective draws, each of shape (2, D)."""
    import arviz as az

    # Runs that are longer have many iterations per effective draw.
    _, n_draws, n_parameters = run.draws.shape
    draws = run.draws[:, :: max(1, n_draws // MOST), :: max(1, n_parameters // MOST_PARAMETERS)]
    flat = draws.reshape(-1, draws.shape[2])
    values = np.stack([flat.mean(axis=0), flat.std(axis=0, ddof=1)])
    methods = ("mean", "sd")
    errors = np.stack([az.mcse(draws, method=method) for method in methods])
    ess = np.stack([az.ess(draws, method=method) for method in methods])
    # What a chain that has not crossed the posterior says of its sd may look settled, and is not.
    return values, errors, np.minimum.accumulate(ess)
