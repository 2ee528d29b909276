"""Base classes of families of likelihoods, and derivative bounds from their graphs."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.checks import check_values
from pymc_flymc.likelihoods.jets import ELEMENTARY, RECIPROCAL, Growing, Jet, known_of, power
from pymc_flymc.likelihoods.likelihood import RowParameters, outcome

#: Exceeds the rounding error of a bound, which is made of few sums and products without signs.
ROUNDED_UP = 1.0 + 2.0**-40
#: If there are several growing bounds, each row uses the one that is smallest at this many spreads.
SPREADS_AWAY = 6.0


def limit_within(
    likelihood: Any, order: int, low: Any, high: Any, spread: Any, y: np.ndarray
) -> np.ndarray:
    """Return bounds on a derivative of the log-likelihood where predictors are in intervals.

    The order is at most four. `low`, `high` and `spread` have a number or an array (n,) for each
    predictor: the ends of the interval, which may be infinite, and the largest element of
    directions. The result, (n,), is infinite if no bound is found.
    """
    etas = [Jet.predictor(*each) for each in zip(low, high, spread, strict=True)]
    with np.errstate(all="ignore"):
        return _rounded(_traverse(likelihood, etas, y).derivative(order), len(y))


def limit_anywhere(likelihood: Any, order: int, eta: Any, y: np.ndarray) -> Growing:
    """Return bounds (n,) on a derivative in the only predictor at any distance from eta."""
    with np.errstate(all="ignore"):
        jet = Jet.predictor(eta, eta, 1.0, anywhere=True)
        limit = Growing.of(_traverse(likelihood, [jet], y).derivative(order))
        return Growing(_rounded(limit.size, len(y)), limit.rate)


def least_far_out(*limits: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return one of several bounds for each row: scales and rates, both of shape (n,)."""
    scales, rates = np.stack([np.broadcast_arrays(*each) for each in limits], axis=1)
    with np.errstate(divide="ignore"):
        far_out = np.log(scales) + SPREADS_AWAY * rates
    best = np.argmin(np.where(np.isnan(far_out), np.inf, far_out), axis=0)
    rows = np.arange(len(best))
    return scales[best, rows], rates[best, rows]


def _rounded(limit: Any, n: int) -> np.ndarray:
    limit = np.broadcast_to(np.asarray(limit) * ROUNDED_UP, (n,))
    return np.where(np.isnan(limit), np.inf, limit)


def _traverse(likelihood: Any, etas: list[Jet], y: np.ndarray) -> Jet:
    """Return the log-likelihood with its bounds; refuse an operation that has none."""
    predictors, columns, value = _graph(likelihood)
    found: dict[Variable, Jet] = dict(zip(predictors, etas, strict=True))
    for v, column in zip(columns, np.atleast_2d(y.T), strict=True):
        found[v] = Jet.data(np.asarray(column, dtype=np.float64))

    def part(v: Any) -> Jet:
        if v not in found:
            found[v] = _constant(v) if isinstance(v, Constant) else operation(v)
        return found[v]

    def operation(v: Any) -> Jet:
        known = known_of(v)
        jets = [part(u) for u in (known.inputs if known else v.owner.inputs)]
        if all(jet.fixed for jet in jets):
            return _evaluated(v, [part(u).ends()[0] for u in v.owner.inputs])
        result = known.limits(*jets) if known else _rule(v, jets)
        if result is None:
            raise UnsupportedModelError(
                f"limits of derivatives of the likelihood {likelihood.name} cannot be computed: "
                f"its log_likelihood has the operation {v.owner.op} of a predictor. Give the "
                "family the methods derivative_bound, or third_bound and third_beyond"
            )
        return result

    return part(value)


def _graph(likelihood: Any) -> tuple[list[Any], list[Any], Any]:
    """Return symbols of predictors and of observed values, and the graph of the log-likelihood."""
    etas = [pt.vector(f"eta_{i}", dtype="float64") for i in range(likelihood.n_predictors)]
    columns = [pt.vector(name, dtype="float64") for name in ("y", *likelihood.row_data)]
    return etas, columns, likelihood.log_likelihood(etas, outcome(likelihood, columns))


def _constant(v: Any) -> Jet:
    """Return a constant, as a number if it is one: linear parts then have one slope."""
    return Jet.data(float(v.data.item()) if np.size(v.data) == 1 else np.asarray(v.data))


def _evaluated(v: Any, inputs: Sequence[Any]) -> Jet:
    """Evaluate a part that depends on observed values alone."""
    shaped = [
        np.asarray(value, u.type.dtype).reshape((-1,) * u.type.ndim)
        for value, u in zip(inputs, v.owner.inputs, strict=True)
    ]
    storage: list[list[Any]] = [[None] for _ in v.owner.outputs]
    v.owner.op.perform(v.owner, shaped, storage)
    return Jet.data(storage[v.owner.outputs.index(v)][0])


def _rule(v: Any, jets: list[Jet]) -> Jet | None:
    """Return the jet of an operation from those of its inputs, or None if it is not known."""
    kind = type(v.owner.op.scalar_op) if isinstance(v.owner.op, Elemwise) else None
    one, *others = jets
    if kind in (ps.Add, ps.Mul):
        return functools.reduce(Jet.__add__ if kind is ps.Add else Jet.__mul__, jets)
    if kind is ps.Sub:
        return one - others[0]
    if kind is ps.Neg:
        return -one
    if kind is ps.Second:
        return others[0]
    if kind is ps.TrueDiv:
        return one * others[0].through(RECIPROCAL)
    if kind is ps.Pow and others[0].fixed and np.size(p := others[0].ends()[0]) == 1:
        return one.through(power(np.asarray(p).item()))
    if kind is ps.Switch and one.fixed:
        return others[0].where(one.ends()[0] != 0, others[1])
    return one.through(ELEMENTARY[kind]) if kind in ELEMENTARY else None


class Family:
    """A family of finite numbers that is recognised by the observed variable's distribution.

    It has the methods of `Likelihood`; a subclass defines `read` and `log_likelihood`.
    """

    distributions: Any  #: PyMC's distributions of this family: a class, or several.
    name: str
    n_predictors: int = 1
    nuisances: tuple[str, ...] = ()
    row_data: tuple[str, ...] = ()
    #: Whether a zero is certain where the first predictor, of a log mean, is minus infinity.
    zero_at_no_mean: bool = False

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable has one of the family's distributions."""
        return rv.owner is not None and isinstance(rv.owner.op, self.distributions)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the parameters, as `Likelihood.read` does.

        Raises
        ------
        UnsupportedModelError
            If they are of another form than the family's `usage`.
        ValueError
            If a constant among them is not possible, such as a scale that is not positive.
        """
        raise NotImplementedError

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return observed values, which must be finite, as float64.

        Raises
        ------
        ValueError
            If there are values that the family does not allow, or NaN.
        """
        values = np.asarray(values, dtype=np.float64)
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        check_values(finite, values, name, "finite")
        return values

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the graph of the log-likelihood, as `Likelihood.log_likelihood` does."""
        raise NotImplementedError


class SmoothFamily(Family):
    """A `SmoothLikelihood` whose derivative bounds come from the graph of its log-likelihood.

    A family with tighter bounds overrides `derivative_bound` and `growth`.
    """

    log_concave: bool = True

    @property
    def growth(self) -> float:
        """Return the rate at which derivatives may grow with the distance from a predictor."""
        rate = _growth_of(self)
        if np.isfinite(rate):
            return rate
        raise self._unlimited()

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return bounds on ``|d^order log L / d eta^order|`` for eta between low and high.

        If derivatives grow, and the ends are equal in all rows, bounds and `growth` hold anywhere.

        Raises
        ------
        UnsupportedModelError
            If there are no finite bounds.
        """
        if np.array_equal(low, high) and self.growth:
            limit = limit_anywhere(self, order, low, y).size
        else:
            limit = limit_within(self, order, [low], [high], [1.0], y)
            if np.ndim(low) or np.isfinite(low):
                return limit
        if np.isfinite(limit).all():
            return limit
        raise self._unlimited()

    def _unlimited(self) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"derivatives of the likelihood {self.name} have no limit that can be computed for all "
            "predictors: give the family the method derivative_bound, and growth"
        )


class JointlySmoothFamily(Family):
    """A `JointlySmoothLikelihood` whose derivative bounds are computed from the graph.

    A family with tighter bounds overrides `third_bound`. If its third derivatives are not bounded
    for all predictors, it overrides `third_beyond`, too.
    """

    def third_bound(
        self, eta: np.ndarray, half_width: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return bounds on the third derivatives within a half-width of eta."""
        return limit_within(self, 3, eta - half_width, eta + half_width, spread, y)

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds on the third derivatives anywhere, which do not grow.

        Raises
        ------
        UnsupportedModelError
            If there are no finite bounds.
        """
        limit = self.third_bound(eta, np.full_like(eta, np.inf), spread, y)
        if np.isfinite(limit).all():
            return limit, np.zeros_like(limit)
        raise UnsupportedModelError(
            f"derivatives of the likelihood {self.name} have no limit that can be computed for all "
            "predictors: give the family the method third_beyond"
        )


def _growth_of(likelihood: SmoothFamily) -> float:
    """Return the rate of the third and fourth derivatives, which must be the same for all rows."""
    # Two rows are used: a number with a value for each row is not a rate.
    y = np.ones((2, 1 + len(likelihood.row_data)) if likelihood.row_data else 2)
    return max(limit_anywhere(likelihood, order, np.zeros(2), y).rate for order in (3, 4))
