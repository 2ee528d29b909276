"""Deterministic variables with a value for each row, which PyMC computes to record them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from pymc.model.core import Model
from pymc.sampling.mcmc import sample
from pytensor.graph.basic import Variable

from pymc_flymc.errors import warn
from pymc_flymc.graph_tools import freeze

__all__ = ["per_row", "warn_of_recording"]


def per_row(
    model: Model, rows: Sequence[int], shapes: Mapping[Variable, tuple[int, ...]]
) -> dict[str, int]:
    """Deterministic variables with a value for each row, with the number of rows.

    Parameters
    ----------
    rows : sequence of int
        Numbers of rows of the likelihoods.
    shapes : mapping
        Shapes of the value variables.
    """
    graphs = model.replace_rvs_by_values(model.deterministics)
    return {
        str(v.name): max(found)
        for v, graph in zip(model.deterministics, graphs, strict=True)
        if (found := set(rows) & set(freeze(graph, shapes).type.shape))
    }


def warn_of_recording(tall: Mapping[str, int]) -> None:
    """Warn of these Deterministic variables if the ``pm.sample`` that is running records them.

    What it records is up to its `var_names`, which no step method is told of: they are read where
    it keeps them, in the frame of the call. Bambi leaves out what depends on rows in this way.
    """
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not sample.__code__:
        frame = frame.f_back
    if frame.f_code is not sample.__code__:
        return
    wanted = frame.f_locals.get("var_names")
    names = [name for name in tall if wanted is None or name in wanted]
    if names:
        n_rows = max(tall[name] for name in names)
        warn(
            f"the Deterministic variables {names} have a value for each of the {n_rows:,} rows: "
            "PyMC computes and stores them at each draw, a full pass over the data. Leave them "
            "out of the model, or of var_names in pm.sample, and use pm.compute_deterministics "
            "after sampling"
        )
