"""Find a predictor inside the graph of a parameter, however the model writes the link."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import walk
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.basic import get_underlying_scalar_constant_value as number_of
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import first_equals, free_inputs, plain_function
from pymc_flymc.likelihoods.checks import check_parameter, is_zero_or_more
from pymc_flymc.likelihoods.products import factors_of, is_from, without

__all__ = ["RANDOM", "TAILS", "are_tails", "guards_of", "without_guards"]

#: Predictors at which probabilities are 0 or 1 up to rounding, so that what is left are the numbers
#: that a model adds to them or clips them at.
TAILS = np.array([-800.0, -700.0, -350.0, -100.0, -60.0, 60.0, 100.0, 350.0, 700.0, 800.0])
#: Operations that draw random numbers.
RANDOM = (RandomVariable, SymbolicRandomVariable)
#: Largest distance from 0 or 1 of the number that replaces it.
_CLOSE = 1e-15


def guards_of(variable: TensorVariable) -> dict[Any, Any]:
    """Return the guards in a graph, and the numbers that they keep off 0 or 1."""

    def inputs_of(v: Any) -> Any:
        if v.owner is None or (v is not variable and v.name and isinstance(v.owner.op, RANDOM)):
            return None
        return v.owner.inputs

    return {v: v.owner.inputs[2] for v in walk([variable], inputs_of) if _is_guard(v)}


def without_guards(variable: TensorVariable) -> TensorVariable:
    """Return a graph with the guarded numbers in place of the guards."""
    found: Any = variable
    while guards := guards_of(found):
        # One after the other, because the number of one may hold another.
        guard, number = next(iter(guards.items()))
        (found,) = graph_replace([found], {guard: number}, strict=False)
    return found


def are_tails(values: np.ndarray, expected: np.ndarray, rtol: float) -> bool:
    """Return whether values at `TAILS` are those of a link, or what rounding leaves of them."""
    # Where digits cancel, as in 1 - 1 / (1 + exp(v)), this is zero; where numbers overflow, NaN.
    error = np.abs(values - expected)
    same = (error <= rtol * expected) | (error <= np.finfo(values.dtype).tiny)
    same |= (values == expected) | ((values == 0.0) & (expected < rtol))
    # Nothing else may stand in the place of 1.
    same &= (expected != 1.0) | (values == 1.0)
    return bool(np.all(same | np.isnan(values)))


def _is_guard(v: Any) -> bool:
    if not is_from(v, ps.Switch):
        return False
    condition, instead, number = v.owner.inputs
    if not is_from(condition, ps.EQ):
        return False
    compared = [u for u in condition.owner.inputs if u is not number]
    if len(compared) != 1 or number not in condition.owner.inputs:
        return False
    end, close = (number_of(u, raise_not_constant=False) for u in (*compared, instead))
    if isinstance(end, Variable) or isinstance(close, Variable):
        return False
    return float(end) in (0.0, 1.0) and 0.0 < float(abs(np.subtract(close, end))) <= _CLOSE


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


def find_log_mean(
    mu: TensorVariable, rv: TensorVariable, of_counts: bool = False
) -> TensorVariable | None:
    """Return the logarithm of a mean that is the exponential of a predictor, times other factors.

    Constants, such as an exposure or a divisor, become offsets. They must be positive, but the
    exposure of counts may be zero. Free numbers, such as a shape, become part of the intercept. A
    mean that rows look up, such as the rate of a group, or that is one number for all rows may have
    any form. Other forms give None.
    """
    offset: Any = None
    numbers: list[tuple[Any, int]] = []
    eta: Any = None
    sign = 1
    # (A power of an exponential function has another slope, which `find_predictor` tries.)
    while not is_from(mu, ps.Pow | ps.Sqr) and (factors := factors_of(mu)) is not None:
        free = [(v, power) for v, power in factors if free_inputs([v])]
        if len(free) > 1:
            free = [(v, power) for v, power in free if not all(v.type.broadcastable)]
        if not free:
            break
        if len(free) > 1:
            logs = [(power, find_log_mean(v, rv, of_counts)) for v, power in free]
            if any(log is None for _, log in logs):
                break
            eta = pt.add(*(power * log for power, log in logs))
        for v, power in factors:
            if any(v is each for each, _ in free):
                continue
            if of_counts and sign * power > 0:
                expected = "finite and zero or more"
                check_parameter(v, "the exposure", rv, expected, is_zero_or_more)
            else:
                check_parameter(v, "the exposure", rv)
            # PyTensor keeps short Python floats in single precision.
            number = v.astype("float64")
            if free_inputs([v]):
                numbers.append((number, sign * power))
                continue
            log = sign * power * pt.log(number)
            offset = log if offset is None else offset + log
        if eta is not None:
            break
        ((mu, power),) = free
        sign *= power
    if eta is None:
        eta = find_predictor(mu, np.exp)
    if eta is None:
        eta = _link_of(mu, pt.log)
    if eta is None:
        return None
    eta = eta if sign == 1 else -eta
    eta = eta if offset is None else eta + offset
    return eta + _log_of_product(numbers) if numbers else eta


def find_log_odds(p: TensorVariable, rv: TensorVariable) -> TensorVariable | None:
    """Return the log odds of a probability that is the logistic function of a predictor, or None.

    A probability that rows look up, or that is one number for all rows, may have any form. So may a
    and b in ``a / (a + b)``, if `find_log_mean` reads them.
    """
    eta = find_predictor(p, expit)
    if eta is None:
        eta = _link_of(p, lambda v: pt.log(v) - pt.log1p(-v))
    return _log_of_ratio(p, rv) if eta is None else eta


def _log_of_product(numbers: Sequence[tuple[Any, int]]) -> Any:
    """Return the logarithm of a product of powers, which may have two negative factors."""
    product, power = numbers[0]
    for v, own in numbers[1:]:
        product = product * v if own == power else product / v
    return power * pt.log(product)


def _log_of_ratio(p: TensorVariable, rv: TensorVariable) -> Any:
    """Return log(a) - log(b) of a probability a / (a + b), or None."""
    v: Any = without(p, ViewOp)
    if not is_from(v, ps.TrueDiv) or not is_from(v.owner.inputs[1], ps.Add):
        return None
    one, whole = v.owner.inputs
    first = first_equals(v)
    others = [u for u in whole.owner.inputs if first.get(u, u) is not first.get(one, one)]
    if len(others) != 1 or len(whole.owner.inputs) != 2:
        return None
    a, b = find_log_mean(one, rv), find_log_mean(others[0], rv)
    return None if a is None or b is None else a - b


def _link_of(v: Any, link: Callable[[Any], Any], of_table: bool = True) -> Any:
    """Return the link of a parameter that rows look up, as a lookup of the link; or None.

    ``rate[group]`` is the exponential function of ``log(rate)[group]``, a predictor whose
    coefficients are the logarithms of the rates. A choice by data is a lookup, too, and so is a
    column or a row that all columns or rows of a table have, if it is `of_table`.
    """
    v = without(v, ViewOp)  # a pm.Deterministic, say
    if all(v.type.broadcastable):
        return link(v.flatten() if v.ndim else v)
    if v.owner is None:
        return None
    if _has_no_data(v):
        return link(v)
    source, *others = v.owner.inputs
    if isinstance(v.owner.op, AdvancedSubtensor) and not free_inputs(others):
        return v.owner.op(link(source), *others)
    if isinstance(v.owner.op, DimShuffle):
        is_wider = of_table and v.ndim > source.ndim  # no axis is dropped again
        found = _link_of(source, link, of_table and v.ndim >= source.ndim)
        if found is None and is_wider:
            found = link(source)
        return None if found is None else v.owner.op(found)
    if is_from(v, ps.Switch) and not free_inputs([source]):
        links = [_link_of(each, link, of_table) for each in others]
        return None if any(each is None for each in links) else pt.switch(source, *links)
    return None


def _has_no_data(v: TensorVariable) -> bool:
    """Return whether a parameter is computed from random variables and single numbers alone."""

    def inputs_of(u: Variable) -> Any:
        return None if u.owner is None or isinstance(u.owner.op, RANDOM) else u.owner.inputs

    leaves = (u for u in walk([v], inputs_of) if inputs_of(u) is None)
    return all(u.owner or all(getattr(u.type, "broadcastable", ())) for u in leaves)
