"""Find a predictor inside the graph of a parameter, however the model writes the link."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import first_equals, plain_function
from pymc_flymc.likelihoods.guards import TAILS, are_tails, without_guards
from pymc_flymc.likelihoods.products import without

# Slopes to try: the parameter may be inverse_link(slope * v) of a variable v.
_SLOPES = (1, -1, 2, -2)
_GRID = np.linspace(-36.0, 36.0, 289)
# Candidates tried before the search gives up; a link is a few operations deep.
_MAX_CANDIDATES = 60
_WRAPPERS = (ViewOp, SpecifyShape, DimShuffle, Alloc)
_CUTS = (ps.Clip, ps.Maximum, ps.Minimum)


def find_predictor(
    parameter: TensorVariable,
    inverse_link: Callable[[np.ndarray], np.ndarray],
    rtol: float = 64 * np.finfo(np.float64).eps,
) -> TensorVariable | None:
    """Return the predictor of which a parameter is the inverse link, or None.

    Each part v of the parameter's graph is tried from the top down. If the parameter is a function
    of v alone, element by element, and that function is the inverse link on a grid of values, v is
    the predictor: this accepts every way to write the link, and nothing else. For a lookup in such
    a parameter, ``sigmoid(a)[group]``, it is the lookup in the predictor, ``a[group]``.

    Parameters
    ----------
    parameter : TensorVariable
    inverse_link : callable
        From an array of predictors to the parameter's values.
    rtol : float
        Rounding errors allowed in a graph of double precision, relative to values above one.

    Returns
    -------
    TensorVariable or None
        Of the parameter's dimensions, or a scalar.
    """
    parameter = without_guards(parameter)
    # exp(X @ b) / (1 + exp(X @ b)) holds its predictor twice.
    first = first_equals(parameter)
    for candidate, order in _elementwise_parts(parameter, first):
        slope = _slope(parameter, candidate, first, inverse_link, rtol)
        if slope is not None:
            as_it_is = candidate.ndim == 0 or order == tuple(range(candidate.ndim))
            eta: Any = candidate if as_it_is else candidate.dimshuffle(order)
            return eta if slope == 1 else slope * eta
    return _looked_up(parameter, inverse_link, rtol)


def _looked_up(
    parameter: TensorVariable, inverse_link: Callable[[np.ndarray], np.ndarray], rtol: float
) -> TensorVariable | None:
    """Return the predictor of a lookup: ``sigmoid(a)[group]`` is ``sigmoid(a[group])``."""
    v = without(parameter, ViewOp)  # a pm.Deterministic, say
    if v.owner is None or not isinstance(v.owner.op, AdvancedSubtensor):
        return None
    source, *index = v.owner.inputs
    eta: Any = find_predictor(source, inverse_link, rtol)
    if eta is None or eta.ndim == 0:
        return eta
    found: Any = v.owner.op(eta, *index)
    return found


def as_columns(*predictors: TensorVariable) -> TensorVariable:
    """Return predictors, scalars or vectors, as the columns of one matrix."""
    return pt.stack(pt.broadcast_arrays(*map(pt.atleast_1d, predictors)), axis=1)


def _elementwise_parts(
    p: TensorVariable, first: dict[Variable, Variable]
) -> list[tuple[Any, tuple[int | str, ...]]]:
    """Return the parts of p that only elementwise operations separate from it, top first.

    The second element is the order in which the part's axes become p's, as `dimshuffle` has it. A
    part in several orders, as ``a`` in ``a[:, None] - a``, is left out: p is not a function of it.
    """
    start: Any = tuple(range(p.ndim))
    queue, orders = deque([(p, start)]), {p: {start}}
    for _ in range(_MAX_CANDIDATES):
        if not queue:
            break
        v, order = queue.popleft()
        if v.owner is None or not isinstance(v.owner.op, (Elemwise, *_WRAPPERS)):
            continue
        for u in v.owner.inputs[:1] if isinstance(v.owner.op, _WRAPPERS) else v.owner.inputs:
            parent, own = first.get(u, u), _order_of(v, u, order)
            if own not in orders.setdefault(parent, set()) and not isinstance(parent, Constant):
                orders[parent].add(own)
                queue.append((parent, own))
    return [(v, *own) for v, own in orders.items() if len(own) == 1]


def _order_of(v: Any, parent: Any, order: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the order of a part's axes, given that of the result of an operation on it."""
    if isinstance(v.owner.op, DimShuffle):
        source: Any = v.owner.op.new_order
    else:  # `Alloc` adds axes in front
        added = v.type.ndim - parent.type.ndim
        source = ["x"] * added + list(range(parent.type.ndim))
    return tuple("x" if axis == "x" else source[axis] for axis in order)


def _slope(
    p: TensorVariable,
    v: TensorVariable,
    first: dict[Variable, Variable],
    inverse_link: Callable[[np.ndarray], np.ndarray],
    rtol: float,
) -> int | None:
    """Return the slope for which ``p = inverse_link(slope * v)`` as a function of v, or None."""
    if v is p or "float" not in v.type.dtype:
        return None
    probe = pt.vector("probe", dtype=v.type.dtype)
    function = _as_function(p, v, probe, first)
    if function is None or "float" not in function.type.dtype:
        return None
    with np.errstate(all="ignore"):
        written = plain_function([probe], function)
        values, far = (written(grid.astype(v.type.dtype)) for grid in (_GRID, TAILS))
        if values.shape != _GRID.shape:
            return None
        rtol = max(rtol, 64 * np.finfo(values.dtype).eps)
        for slope in _SLOPES:
            expected = inverse_link(slope * _GRID)
            error = np.abs(values - expected) / np.maximum(1.0, expected)
            tails = inverse_link(slope * TAILS)
            if error.max() <= rtol and are_tails(far, tails, rtol):
                return slope
    return None


def _as_function(
    p: TensorVariable, v: TensorVariable, probe: Variable, first: dict[Variable, Variable]
) -> TensorVariable | None:
    """Return p rebuilt on a probe vector in place of v, without data; None if it needs more."""
    memo: dict[Variable, Any] = {first.get(v, v): probe}
    pending = [first.get(p, p)]
    while pending:
        u = pending[-1]
        if u in memo:
            pending.pop()
            continue
        needed = _arguments(u)
        if needed is None:
            memo[u] = None
            if isinstance(u, Constant) and np.size(u.data) == 1:
                memo[u] = pt.constant(np.ravel(u.data)[0])
            continue
        needed = [first.get(w, w) for w in needed]
        missing = [w for w in needed if w not in memo]
        if missing:
            pending.extend(missing)
            continue
        inputs = [memo[w] for w in needed]
        if any(w is None for w in inputs):
            memo[u] = None
        elif isinstance(u.owner.op, Elemwise) and not isinstance(u.owner.op.scalar_op, ps.Second):
            memo[u] = u.owner.op(*inputs)
        else:
            (memo[u],) = inputs
    return memo[first.get(p, p)]


def _arguments(u: Variable) -> list[Variable] | None:
    """Return the variables that elements of u are computed from, or None for unknown operations."""
    if u.owner is None:
        return None
    op = u.owner.op
    if isinstance(op, Elemwise):
        # Clipping is not accepted: a grid may miss the values that it changes.
        if isinstance(op.scalar_op, _CUTS):
            return None
        return u.owner.inputs[1:] if isinstance(op.scalar_op, ps.Second) else u.owner.inputs
    return u.owner.inputs[:1] if isinstance(op, _WRAPPERS) else None


def unreadable(rv: TensorVariable, what: str, link: str, usage: str) -> UnsupportedModelError:
    """Return the error for a parameter `what` in which no predictor of the link is found."""
    return UnsupportedModelError(
        f"cannot read the observed variable {rv.name!r}: its {what} is not the {link} function of "
        f"a linear predictor. Use {usage}"
    )
