"""What there is of every row, in one copy for all chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_flymc.kernels.poisson import SPARE, AliasTables
from pymc_flymc.native import read_only
from pymc_flymc.resampling import Levels
from pymc_flymc.rows import Rows
from pymc_flymc.shared import SharedArray

__all__ = ["Data"]

_ROWS = ("X", "offset", "constants", "indptr", "indices", "values")
_ALIAS = ("heavy", "near_threshold", "near_alias", "far_threshold", "far_alias")


class Data:
    """Row-sized arrays. Under forkserver and spawn they travel as the names of files.

    Parameters
    ----------
    rows : Rows
        Design (the user's own memory where possible) and the constants of the bound.
    levels : Levels or None
        Proposal probabilities of implicit resampling.
    alias : AliasTables or None
        Tables of the joint kernel.
    """

    def __init__(self, rows: Rows, levels: Levels | None, alias: AliasTables | None = None) -> None:
        self.rows = rows
        self.levels = levels
        self.alias = alias
        self._shared: dict[str, SharedArray] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Row-sized arrays as references to files, see `SharedArray`."""
        if self._shared is None:
            arrays = {name: getattr(self.rows, name) for name in _ROWS}
            if self.levels is not None:
                arrays |= {name: getattr(self.levels, name) for name in ("level", "order")}
            if self.alias is not None:
                arrays |= {name: getattr(self.alias, name) for name in _ALIAS}
            self._shared = {name: SharedArray(array) for name, array in arrays.items()}
        levels = self.levels
        return {
            "shared": self._shared,
            "intercept": self.rows.intercept,
            "n_sparse": self.rows.n_sparse,
            "levels": None if levels is None else (levels.q, levels.start),
            "alias total": None if self.alias is None else self.alias.total,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays = {name: read_only(shared.array) for name, shared in state["shared"].items()}
        levels = state["levels"]
        if levels is not None:
            levels = Levels(levels[0], arrays.pop("level"), arrays.pop("order"), levels[1])
        self.alias = None
        if state["alias total"] is not None:
            tables = {name: arrays.pop(name) for name in _ALIAS}
            drawn = np.empty(len(tables["near_alias"]) + SPARE, np.int32)
            self.alias = AliasTables(total=state["alias total"], drawn=drawn, **tables)
        self.levels = levels
        self.rows = Rows(intercept=state["intercept"], n_sparse=state["n_sparse"], **arrays)
        self._shared = state["shared"]
