"""The ``pm.sample`` that is running: what it was given, and whether the step is of its model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from pymc.model import Model
from pymc.sampling.mcmc import sample

__all__ = ["arguments_of_sample", "check_model"]


def arguments_of_sample() -> Mapping[str, Any] | None:
    """Return the variables of the call of ``pm.sample`` that is running, None if none is.

    No step method is told of them: they are read where it keeps them, in the frame of the call.
    """
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not sample.__code__:
        frame = frame.f_back
    return frame.f_locals if frame.f_code is sample.__code__ else None


def check_model(model: Model, name: str) -> None:
    """Refuse to sample another model than that of a step, of which PyMC says no more than that.

    Raises
    ------
    ValueError
        It names the step.
    """
    sampled = (arguments_of_sample() or {}).get("model")
    if isinstance(sampled, Model) and sampled.root is not model.root:
        raise ValueError(
            f"{name} was built in another model than the one that pm.sample is given: build the "
            f"step in this one, as in `with model: pm.sample(step={name}())`"
        )
