"""What is measured of a method on a problem."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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
    rows : rows whose likelihood was read after tuning, for each effective draw.
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


def smallest_ess(draws: dict[str, np.ndarray]) -> float:
    """Smallest bulk effective sample size of variables of shape (chains, draws, ...)."""
    import arviz as az

    ess = az.ess(az.from_dict({"posterior": draws}), method="bulk")
    return min(float(ess[name].min()) for name in draws)


def draws_of(idata: Any) -> dict[str, np.ndarray]:
    """Return the draws of all variables."""
    return {str(name): values.to_numpy() for name, values in idata.posterior.data_vars.items()}
