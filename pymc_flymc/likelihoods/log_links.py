"""Logarithms of means and scales, and log odds of probabilities, however a model writes these."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import walk
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.graphs.tools import first_equals, free_inputs
from pymc_flymc.likelihoods.guards import RANDOM
from pymc_flymc.likelihoods.links import find_predictor
from pymc_flymc.likelihoods.products import factors_of, is_from, without
from pymc_flymc.likelihoods.value_checks import check_parameter, is_zero_or_more


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
