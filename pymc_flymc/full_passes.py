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
    model: Model,
    taken: Mapping[TensorVariable, int],
    shapes: Mapping[Variable, tuple[int, ...]],
    refused: Mapping[str, str],
) -> None:
    """Warn of parts of the model that read all rows at each draw.

    Parameters
    ----------
    taken : mapping
        Observed variables whose rows are subsampled, with their numbers.
    shapes : mapping
        Shapes of the value variables.
    refused : mapping
        Why other observed variables could not be, by name.
    """
    most = max(taken.values())
    large = [
        str(rv.name)
        for rv in model.observed_RVs
        if rv not in taken and evaluate(model.rvs_to_values[rv]).size > _NOTABLE_SHARE * most
    ]
    if large:
        reasons = "".join(f"; {refused[name]}" for name in large if name in refused)
        names = " and ".join(repr(rv.name) for rv in taken)
        warnings.warn(
            f"Firefly subsamples the rows of {names} only: the observed variables {large} are "
            f"evaluated in full at each step{reasons}",
            stacklevel=3,
        )
    graphs = model.replace_rvs_by_values(model.deterministics)
    tall = [
        v.name
        for v, graph in zip(model.deterministics, graphs, strict=True)
        if set(taken.values()) & set(freeze(graph, shapes).type.shape)
    ]
    if tall:
        n_rows = " or ".join(str(n) for n in dict.fromkeys(taken.values()))
        warnings.warn(
            f"the Deterministic variables {tall} have a value for each of the {n_rows} rows: "
            "PyMC computes and stores them at each draw, a full pass over the data. Leave them "
            "out of the model (or of var_names in pm.sample) and use pm.compute_deterministics "
            "after sampling",
            stacklevel=3,
        )
