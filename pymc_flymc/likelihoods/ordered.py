"""Ordered outcomes: categorical variables of cumulative probabilities with a logistic link.

With cutpoints c_0 < ... < c_(K-2) level k has the probability sigmoid(a) - sigmoid(b), where a =
c_k - eta and b = c_(k-1) - eta, which is sigmoid(a) sigmoid(-b) (1 - exp(b - a)). The last factor
depends on cutpoints alone. The others belong to two binary outcomes, whether y > k, no, and whether
y > k - 1, yes: comparisons of the row with its cutpoints.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit, ndtr

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs, plain_function
from pymc_flymc.likelihoods.bernoulli import BernoulliLogit
from pymc_flymc.likelihoods.checks import check_values, is_ordered
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.links import TAILS, are_tails, without_guards
from pymc_flymc.likelihoods.products import without

_LINKS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda v: -np.expm1(-np.exp(v)),
}
#: Rounding errors of probabilities. Bambi's probit link has them in single precision, which does
#: not matter, as that link is only named in a refusal.
_ROUNDING = {"logit": 64 * float(np.finfo(np.float64).eps)}
_ROUGHLY = 1e-6


class OrderedLogit(BernoulliLogit):
    """Observed levels with ``P(y_n > k) = sigmoid(eta_n - c_k)``, the same c for all rows.

    A row of the regression compares an observed level with a cutpoint next to it: its outcome is 0
    or 1, its predictor eta_n - c_k.
    """

    name = "ordered-logit"
    usage = "pm.OrderedLogistic(eta=eta, cutpoints=cutpoints)"

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is categorical, with ordered probabilities."""
        return is_cumulative(rv)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return eta and the cutpoints, found inside the graph of p."""
        found = _find(rv)
        if found is None and is_ordered(rv) == "OrderedLogistic":
            raise UnsupportedModelError(
                f"cannot read the observed variable {rv.name!r}: its p is not computed from one "
                f"vector of cutpoints for all rows, less one eta for each row. Use {self.usage}; "
                "for cutpoints[item] write an observed variable for the rows of each item j, with "
                "eta=eta[item == j] and cutpoints=cutpoints[j]"
            )
        if found is None or found[0] != "logit":
            link = found[0] if found else "probit"
            raise UnsupportedModelError(
                f"the observed variable {rv.name!r} is ordered with a {link} link. The probability "
                "of a level is a product of parts, each of one predictor, for the logit link only, "
                f"and Firefly needs bounds on such parts: use {self.usage} (of the latent "
                "variable's scale logistic noise has 1.8 times the standard deviation of normal "
                'noise), or family="cumulative" with its default link'
            )
        return RowParameters(self, found[1], cutpoints=found[2])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return outcomes of comparisons, 0 or 1, as int8; refuse values that are not levels."""
        expected = "levels, whole numbers from 0 to the number of its cutpoints"
        check_values((values == 0) | (values == 1), values, name, expected)
        return values.astype(np.int8)


def is_cumulative(rv: TensorVariable) -> bool:
    """Return whether a variable is categorical, with differences of cumulative probabilities."""
    if rv.owner is None or not isinstance(rv.owner.op, CategoricalRV):
        return False
    return is_ordered(rv) is not None or _find(rv) is not None


def _find(rv: TensorVariable) -> tuple[str, TensorVariable, TensorVariable] | None:
    """Return the link, eta and the cutpoints, vectors, from the p of a categorical variable.

    Each difference v of cutpoints and predictors in the graph of p is tried. If p is a function of
    v alone, and on a grid of values it is a difference of cumulative probabilities, v is the right
    one: this accepts every way to write p, and nothing else.
    """
    (p,) = rv.owner.op.dist_params(rv.owner)
    p = without_guards(without(p, ViewOp))  # inside a Deterministic
    if p.ndim != 2 or p.owner is None or not isinstance(p.owner.op, Elemwise | Join):
        return None
    for v, eta, cutpoints in _differences(p):
        for sign in (1.0, -1.0):  # v = cutpoints - eta, or v = eta - cutpoints
            link = _link(p, v, sign)
            if link is not None:
                # Both become vectors.
                return link, -sign * eta.flatten(), sign * cutpoints.flatten()
    return None


def _differences(p: TensorVariable) -> Iterator[tuple[Any, Any, Any]]:
    """Yield sums in p of a matrix with equal columns and one with equal rows, and both terms."""
    for v in ancestors([p]):
        if v.owner is None or not isinstance(v.owner.op, Elemwise) or v.type.ndim != 2:
            continue
        kind = type(v.owner.op.scalar_op)
        if kind not in (ps.Sub, ps.Add) or len(v.owner.inputs) != 2:
            continue
        signs = (1.0, -1.0 if kind is ps.Sub else 1.0)
        terms = list(zip(signs, v.owner.inputs, strict=True))
        rows = [s * u for s, u in terms if u.type.broadcastable[0]]
        columns = [s * u for s, u in terms if u.type.broadcastable == (False, True)]
        if len(rows) == len(columns) == 1:
            yield v, columns[0], rows[0]


def _link(p: TensorVariable, v: Any, sign: float) -> str | None:
    """Return the link for which p, as a function of sign * v, has the probabilities of levels."""
    n_cutpoints = v.type.shape[1] or 3
    near = np.linspace(-20.0, 20.0, 41)
    start = np.concatenate([near, TAILS])[:, None]
    grid = start + 1.5 * np.arange(n_cutpoints) ** 0.8
    probe = pt.matrix("probe", dtype=v.type.dtype)
    (function,) = clone_replace([p], {v: probe}, rebuild_strict=False)
    if free_inputs([function]) != [probe]:
        return None
    try:
        with np.errstate(all="ignore"):
            values = plain_function([probe], function)((sign * grid).astype(v.type.dtype))
    except ValueError:  # p has parts with a shape of their own
        return None
    for name, link in _LINKS.items():
        rounding = max(_ROUNDING.get(name, _ROUGHLY), 64 * float(np.finfo(values.dtype).eps))
        ends = np.zeros_like(start), np.ones_like(start)
        with np.errstate(all="ignore"):
            expected = np.diff(np.hstack([ends[0], link(grid), ends[1]]), axis=1)
        if values.shape != expected.shape:
            continue
        n = len(near)
        is_close = np.abs(values[:n] - expected[:n]).max() <= rounding
        if is_close and are_tails(values[n:], expected[n:], rounding):
            return name
    return None
