"""What PyMC's progress bar shows of a Firefly chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.progress import TextColumn
from rich.table import Column

from pymc_flymc.steps.recording import warn_of_recording

__all__ = ["BrightRowsProgress"]


class BrightRowsProgress:
    """Columns of the bright rows and of the likelihood queries of a draw."""

    _per_row: Mapping[str, int]

    def _progressbar_config(
        self, n_chains: int = 1
    ) -> tuple[list[TextColumn], dict[str, list[int]]]:
        # PyMC asks for this as a run begins, once, in the process that records the draws.
        warn_of_recording(self._per_row)
        columns = [
            TextColumn("{task.fields[n_bright]}", table_column=Column("Bright rows", ratio=1)),
            TextColumn(
                "{task.fields[likelihood_queries]}", table_column=Column("Rows read", ratio=1)
            ),
        ]
        return columns, {"n_bright": [0] * n_chains, "likelihood_queries": [0] * n_chains}

    @staticmethod
    def _make_progressbar_update_functions() -> tuple[Callable[..., Any], ...]:
        def update(stats: dict[str, Any]) -> dict[str, Any]:
            return {key: stats[key] for key in ("n_bright", "likelihood_queries")}

        return (update,)
