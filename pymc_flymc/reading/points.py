"""Points that users give: anchors, initial points and starts of chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pymc.model.core import Model

from pymc_flymc.compat.pymc import make_initial_point_fn
from pymc_flymc.errors import check

if TYPE_CHECKING:
    from pymc_flymc.reading.flat import Layout


def anchor_point(model: Model, anchor: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the unconstrained point of a user's anchor; other variables keep initial values."""
    names = {str(rv.name): rv for rv in model.free_RVs}
    if unknown := [name for name in anchor if name not in names]:
        raise ValueError(f"anchor names {unknown}; the free variables are {sorted(names)}")
    shapes = model.eval_rv_shapes()
    values = {
        name: _finite(f"anchor[{name!r}]", value, shapes[name]) for name, value in anchor.items()
    }
    overrides = {names[name]: np.broadcast_to(v, shapes[name]) for name, v in values.items()}
    point = make_initial_point_fn(model=model, overrides=overrides)(0)
    for name, given in anchor.items():
        unconstrained = point[str(model.rvs_to_values[names[name]].name)]
        inside = bool(np.isfinite(unconstrained).all())
        check(inside, f"anchor[{name!r}]", f"strictly inside the range of {name!r}", given)
    return point


def complete_point(model: Model, initial_point: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """Return the model's initial point, or the user's, which must be complete and finite."""
    point = model.initial_point()
    if initial_point is None:
        return point
    for name, default in point.items():
        if name not in initial_point:
            raise ValueError(
                f"initial_point has no {name!r}; like model.initial_point() it must have a value "
                f"for each of {list(point)}, on the unconstrained scale"
            )
        value = _finite(f"initial_point[{name!r}]", initial_point[name], default.shape)
        point[name] = np.broadcast_to(value, default.shape)
    return point


def check_start(theta: np.ndarray, layout: Layout) -> None:
    """Refuse a start, of a chain or of the search for an anchor, that is not finite."""
    bad = np.flatnonzero(~np.isfinite(theta))
    if bad.size:
        name = layout.describe(int(bad[0]))
        of = " (a transformed variable)" if "__" in name else ""
        raise ValueError(
            f"the start has {theta[bad[0]]} for {name}{of}: initial values must be finite, and "
            "strictly inside the range of their variables"
        )


def _finite(what: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the value of a variable as an array of its shape, or as a scalar."""
    try:
        value = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        check(False, what, "a number or an array of numbers", given)
        raise
    if value.shape not in ((), tuple(shape)):
        raise ValueError(f"{what} has shape {value.shape}, the variable {tuple(shape)}")
    bad = value[~np.isfinite(value)]
    if bad.size:
        raise ValueError(f"{what} must be finite, and holds {bad.flat[0]}")
    return value
