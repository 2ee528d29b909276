"""Parts of a model that read all rows at each draw, whatever the step does."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graph_tools import evaluate, freeze

__all__ = ["warn_of_full_passes"]

# Other observed variables are evaluated in full at each step: say so above this share of the rows.
_NOTABLE_SHARE = 0.1


def warn_of_full_passes(
    model: Model, rv: TensorVariable, n_rows: int, shapes: Mapping[Variable, tuple[int, ...]]
) -> None:
    """Warn of parts of the model that read all rows at each draw."""
    large = [
        other.name
        for other in model.observed_RVs
        if other is not rv and evaluate(model.rvs_to_values[other]).size > _NOTABLE_SHARE * n_rows
    ]
    if large:
        warnings.warn(
            f"Firefly subsamples the rows of {rv.name!r} only: the observed variables {large} are "
            "evaluated in full at each step",
            stacklevel=3,
        )
    graphs = model.replace_rvs_by_values(model.deterministics)
    tall = [
        v.name
        for v, graph in zip(model.deterministics, graphs, strict=True)
        if n_rows in freeze(graph, shapes).type.shape
    ]
    if tall:
        warnings.warn(
            f"the Deterministic variables {tall} have a value for each of the {n_rows} rows: "
            "PyMC computes and stores them at each draw, a full pass over the data. Leave them "
            "out of the model (or of var_names in pm.sample) and use pm.compute_deterministics "
            "after sampling",
            stacklevel=3,
        )
