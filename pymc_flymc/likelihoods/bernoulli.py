"""Bernoulli variables with a logistic link, however the model writes it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.basic import BernoulliRV
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graph_tools import first_equals, plain_function
from pymc_flymc.likelihoods.base import RowParameters

# How p may depend on the variable found: p = sigmoid(slope * v).
_SLOPES = (1, -1, 2, -2)
_GRID = np.linspace(-36.0, 36.0, 289)
# Candidates tried before a graph is given up; a logistic function is a few operations deep.
_MAX_CANDIDATES = 60
_WRAPPERS = (ViewOp, SpecifyShape, DimShuffle, Alloc)
_CUTS = (ps.Clip, ps.Maximum, ps.Minimum)


class BernoulliLogit:
    """Observed 0/1 with ``P(y_n = 1) = sigmoid(eta_n)``."""

    name = "bernoulli-logit"
    n_predictors = 1
    nuisances: tuple[str, ...] = ()

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is ``pm.Bernoulli``."""
        return rv.owner is not None and isinstance(rv.owner.op, BernoulliRV)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log odds, found inside the graph of p.

        Each part v of the graph of p is tried from the top down. If p is a function of v alone,
        element by element, and that function is the logistic one on a grid of values, v is the
        predictor: this accepts every way to write the logistic function, and nothing else.

        Parameters
        ----------
        rv : TensorVariable
            A Bernoulli random variable.

        Returns
        -------
        RowParameters
            Its one predictor is a scalar or of p's dimensions.

        Raises
        ------
        UnsupportedModelError
            If p is not a logistic function of a part of its graph.
        """
        (p,) = rv.owner.op.dist_params(rv.owner)
        # exp(X @ b) / (1 + exp(X @ b)) holds its predictor twice.
        first = first_equals(p)
        for candidate in _elementwise_parts(p):
            slope = _logistic_slope(p, candidate, first)
            if slope is not None:
                # What p's operations drop are axes of length 1, for the rows are a vector.
                eta = candidate.flatten() if candidate.ndim > 1 else candidate
                return RowParameters(eta if slope == 1 else slope * eta)
        raise UnsupportedModelError(
            f"cannot read the observed variable {rv.name!r}: its p is not the logistic function of "
            "a linear predictor. Use pm.Bernoulli(logit_p=eta) or p=pm.math.sigmoid(eta), without "
            "clipping, other links or mixtures"
        )

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check that observed values are 0 or 1, and return them as int8.

        Parameters
        ----------
        values : ndarray of shape (N,)
            Booleans, integers or floats.
        name : str
            Name of the observed variable, for the message.

        Raises
        ------
        ValueError
            If there are other values, NaN included.
        """
        bad = np.flatnonzero((values != 0) & (values != 1))
        if bad.size:
            raise ValueError(
                f"{name} has {bad.size} values other than 0 and 1, first at row {bad[0]}: "
                f"{values[bad[0]]}; recode them or drop these rows"
            )
        return values.astype(np.int8)

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float
    ) -> np.ndarray:
        """Return the largest ``|d^order log L / d eta^order|`` for eta between low and high.

        The derivatives depend on |eta| only, up to sign, and are monotone between their stationary
        points: the supremum is at an end or at a stationary point inside. In s = p (1 - p) the
        third is s sqrt(1 - 4 s), with a maximum of 1 / (6 sqrt 3) at s = 1/6; the fourth is
        s (1 - 6 s), with extrema of -1/8 at s = 1/4 (eta = 0) and 1/24 at s = 1/12.
        """
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        near = np.maximum(np.maximum(low, -high), 0.0)
        far = np.maximum(np.abs(low), np.abs(high))
        largest = np.maximum(_derivative(order, near), _derivative(order, far))
        s = {3: 1 / 6, 4: 1 / 12}[order]
        turn = np.asarray(2.0 * np.arctanh(np.sqrt(1.0 - 4.0 * s)))  # |eta| where p (1 - p) = s
        inside = (near <= turn) & (turn <= far)
        return np.where(inside, np.maximum(largest, _derivative(order, turn)), largest)

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return ``y * eta - log(1 + exp(eta))`` in a form that neither overflows nor cancels."""
        (eta,) = arguments
        return y * eta - pt.softplus(eta)


def _derivative(order: int, eta: np.ndarray) -> np.ndarray:
    """Absolute third or fourth derivative of the log-likelihood."""
    q = np.exp(-np.abs(eta))
    s = q / (1.0 + q) ** 2
    return s * (1.0 - q) / (1.0 + q) if order == 3 else s * np.abs(1.0 - 6.0 * s)


def _elementwise_parts(p: TensorVariable) -> Iterator[TensorVariable]:
    """Yield the parts of p that only elementwise operations separate from it, top first."""
    queue, seen = deque([p]), {p}
    for _ in range(_MAX_CANDIDATES):
        if not queue:
            return
        v = queue.popleft()
        yield v
        if v.owner is None or not isinstance(v.owner.op, (Elemwise, *_WRAPPERS)):
            continue
        for parent in v.owner.inputs:
            if parent not in seen and not isinstance(parent, Constant):
                seen.add(parent)
                queue.append(parent)


def _logistic_slope(
    p: TensorVariable, v: TensorVariable, first: dict[Variable, Variable]
) -> int | None:
    """Return the slope for which ``p = sigmoid(slope * v)`` as a function of v alone, or None."""
    if v is p or "float" not in v.type.dtype:
        return None
    probe = pt.vector("probe", dtype=v.type.dtype)
    function = _as_function(p, v, probe, first)
    if function is None or "float" not in function.type.dtype:
        return None
    with np.errstate(all="ignore"):
        values = plain_function([probe], function)(_GRID.astype(v.type.dtype))
        if values.shape != _GRID.shape:
            return None
        for slope in _SLOPES:
            error = np.abs(values - 1 / (1 + np.exp(-slope * _GRID)))
            if error.max() <= 64 * np.finfo(values.dtype).eps:
                return slope
    return None


def _as_function(
    p: TensorVariable, v: TensorVariable, probe: Variable, first: dict[Variable, Variable]
) -> TensorVariable | None:
    """Rebuild p on a probe vector in place of v; None if p depends on anything else.

    Only the operations between v and p are rebuilt, element by element: no data is touched.
    """
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
    """Return what the elements of u are computed from, None at the end of what is understood."""
    if u.owner is None:
        return None
    op = u.owner.op
    if isinstance(op, Elemwise):
        # Cutting p off changes it only where a grid may not look.
        if isinstance(op.scalar_op, _CUTS):
            return None
        return u.owner.inputs[1:] if isinstance(op.scalar_op, ps.Second) else u.owner.inputs
    return u.owner.inputs[:1] if isinstance(op, _WRAPPERS) else None
