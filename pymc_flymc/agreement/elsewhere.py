"""Rows that lie elsewhere, to be compared: a sample of them, in the model's own containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from pymc.model.core import Model
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import freeze
from pymc_flymc.reading.recipe import GraphRecipe
from pymc_flymc.regression.elsewhere import RUN, TallDesign
from pymc_flymc.regression.regression import Regression
from pymc_flymc.sources.source import Partition, Values

__all__ = ["Sample", "sample_rows"]


@dataclass(frozen=True)
class Sample:
    """Rows in memory.

    Attributes
    ----------
    regression : Regression
        As the step reads these rows.
    numbers : ndarray of int
        Theirs among all rows.
    logp : TensorVariable
        The model's own log-likelihoods of these rows, of value variables; its data are constants.
    """

    regression: Regression
    numbers: np.ndarray
    logp: TensorVariable


def sample_rows(
    model: Model,
    rv: TensorVariable,
    regression: Regression,
    shapes: Mapping[Any, tuple[int, ...]],
    least: int,
) -> Sample:
    """Read about twice as many rows as `least`, or all, from all partitions.

    Parameters
    ----------
    regression : Regression
        Its design is a `TallDesign`.
    """
    design = cast(TallDesign, regression.design)
    recipe = cast(GraphRecipe, design.recipe)
    stride = max(1, design.n_rows // (2 * least))
    parts = list(design.source.map(_some_rows, stride))
    numbers = np.concatenate([part[0] for part in parts])
    values: Values = {
        name: np.concatenate([part[1][name] for part in parts]) for name in design.source.names
    }
    known, y = recipe(values)
    logp = freeze(model.logp(vars=[rv], sum=False)[0], shapes, recipe.values(values))
    return Sample(Regression(regression.name, known, y, regression.likelihood), numbers, logp)


def _some_rows(partition: Partition, stride: int) -> tuple[np.ndarray, Values]:
    """Read runs of rows at equal distances through all partitions."""
    wide = RUN * stride
    starts = np.arange(-partition.first % wide, partition.n_rows, wide)
    rows = (starts[:, None] + np.arange(RUN)).ravel()
    rows = rows[rows < partition.n_rows]
    return partition.first + rows, partition.read(rows)
