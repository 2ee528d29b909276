"""Deterministic variables with a value for each row, which PyMC computes to record them."""

from __future__ import annotations

from collections.abc import Mapping

from pymc_flymc.errors import warn
from pymc_flymc.steps.running import arguments_of_sample

__all__ = ["warn_of_recording"]


def warn_of_recording(tall: Mapping[str, int]) -> None:
    """Warn of these Deterministic variables if the ``pm.sample`` that is running records them.

    What it records is up to its `var_names`. Bambi leaves out what depends on rows in this way.
    """
    arguments = arguments_of_sample()
    if arguments is None:
        return
    wanted = arguments.get("var_names")
    names = [name for name in tall if wanted is None or name in wanted]
    if names:
        n_rows = max(tall[name] for name in names)
        warn(
            f"the Deterministic variables {names} have a value for each of the {n_rows:,} rows: "
            "PyMC computes and stores them at each draw, a full pass over the data. Leave them "
            "out of the model, or of var_names in pm.sample, and use pm.compute_deterministics "
            "after sampling"
        )
