"""Deterministic variables with a value for each row, which PyMC computes to record them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pymc.sampling.mcmc import sample

from pymc_flymc.errors import warn

__all__ = ["warn_of_recording"]


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
