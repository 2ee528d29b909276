"""Base classes of families of likelihoods."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.limits import limit_anywhere, limit_within
from pymc_flymc.likelihoods.value_checks import check_values


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
