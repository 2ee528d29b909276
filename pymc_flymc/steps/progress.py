"""What PyMC's progress bar shows of a Firefly chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.progress import TextColumn
from rich.table import Column

__all__ = ["BrightRowsProgress"]


class BrightRowsProgress:
    """Columns of the bright rows and of the likelihood queries of a draw."""

    @staticmethod
    def _progressbar_config(n_chains: int = 1) -> tuple[list[TextColumn], dict[str, list[int]]]:
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
