"""What is measured of a method on a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

TARGET_ESS = 1000


@dataclass(frozen=True)
class Measurement:
    """Times in seconds.

    Attributes
    ----------
    setup : time before the first chain starts: anchor, statistics, compilation.
    warmup : wall time of all chains until the last of them has ended tuning, and of PyMC's work
        around them.
    rate : smallest bulk effective sample size a second, over all coefficients, after tuning.
    rows : rows whose likelihood was read after tuning, per effective draw.
    ess : smallest bulk effective sample size of the run.
    extrapolated : whether the run was shorter than the method's default.
    chosen : the bound that a step has chosen by itself.
    bright : share of the rows that are bright, on average.
    queries : rows whose likelihood is read in a draw.
    """

    setup: float
    warmup: float
    rate: float
    rows: float
    ess: float
    extrapolated: bool = False
    chosen: str = ""
    bright: float | None = None
    queries: float | None = None

    @property
    def wall(self) -> float:
        """Wall time from building the step to `TARGET_ESS` effective draws."""
        return self.setup + self.warmup + TARGET_ESS / self.rate

    def to_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


class Rows(NamedTuple):
    """Effective draws of a run, rows read for each of them, and bright rows."""

    ess: float
    each: float
    bright: float


def count_rows(model: Any, make_step: Callable[[], Any], seed: int, **lengths: int) -> Rows:
    """Sample two chains, in `draws` and `tune` draws, and count rows."""
    import pymc as pm

    with model:
        idata = pm.sample(
            step=make_step(),
            chains=2,
            cores=2,
            progressbar=False,
            random_seed=seed,
            compute_convergence_checks=False,
            **lengths,
        )
    statistics, ess = idata.sample_stats, smallest_ess(draws_of(idata))
    read = float(statistics["likelihood_queries"].sum())
    return Rows(ess, read / ess, float(statistics["n_bright"].mean()))


def smallest_ess(draws: dict[str, np.ndarray]) -> float:
    """Smallest bulk effective sample size of variables of shape (chains, draws, ...)."""
    import arviz as az

    ess = az.ess(az.from_dict({"posterior": draws}), method="bulk")
    return min(float(ess[name].min()) for name in draws)


def ess_of_slowest(draws: dict[str, np.ndarray]) -> float:
    """Bulk effective sample size of the slowest of many parameters.

    The smallest of thousands of estimates is mostly error: of 10,000 parameters with 400
    independent draws it is about 44. So a thousandth of the parameters, one to ten, are selected
    by the first half of the draws as the slowest. The smallest estimate of these from the second
    half is returned, for all draws.

    Parameters
    ----------
    draws : dict
        Variables of shape (1, draws, ...).
    """
    import arviz as az

    flat = np.concatenate([each.reshape(each.shape[1], -1) for each in draws.values()], axis=1)
    half = len(flat) // 2

    def ess(part: np.ndarray) -> np.ndarray:
        found = az.ess(az.from_dict({"posterior": {"x": part[None]}}), method="bulk")["x"]
        return np.asarray(found)

    slowest = np.argsort(ess(flat[:half]))[: min(10, -(-flat.shape[1] // 1000))]
    return float(ess(flat[half:][:, slowest]).min()) * len(flat) / (len(flat) - half)


def draws_of(idata: Any) -> dict[str, np.ndarray]:
    """Return the draws of all variables."""
    return {str(name): values.to_numpy() for name, values in idata.posterior.data_vars.items()}
