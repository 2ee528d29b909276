"""What the sampler needs to know about a family of observed variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from pytensor.tensor.variable import TensorVariable

__all__ = ["ExplicitLikelihood", "Likelihood", "RowParameters", "SmoothLikelihood"]


@dataclass(frozen=True)
class RowParameters:
    """Parameters of an observed variable, as graphs.

    Attributes
    ----------
    predictors : TensorVariable
        Linear predictors: a vector with a value for each row, or a matrix, shape (N, K).
    nuisances : list of TensorVariable
        Scalars that all rows share, on the unconstrained scale.
    """

    predictors: TensorVariable
    nuisances: list[TensorVariable] = field(default_factory=list)


class Likelihood(Protocol):
    """One family of row likelihoods ``L_n = f(y_n, eta_n, nuisances)``.

    The *arguments* of a row are its predictors eta_n, each linear in coefficients, and the
    nuisance parameters, in this order.

    Attributes
    ----------
    name : str
        Name of the family.
    n_predictors : int
        Zero for a family in which the model decides.
    nuisances : tuple of str
        Names of the nuisance parameters.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def n_predictors(self) -> int: ...  # noqa: D102

    @property
    def nuisances(self) -> tuple[str, ...]: ...  # noqa: D102

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable has this family's distribution."""
        ...

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the parameters of a random variable that ``matches``, in the same graph.

        Raises
        ------
        UnsupportedModelError
            If its parameters are not those of this family.
        """
        ...

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check observed values, shape (N,), and return them in a small dtype.

        Raises
        ------
        ValueError
            If a value is impossible; `name` is the observed variable's, for the message.
        """
        ...

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return the graph of ``log L``, element by element, for arguments and y of one shape."""
        ...


@runtime_checkable
class ExplicitLikelihood(Likelihood, Protocol):
    """A likelihood without nuisance parameters that brings its derivatives along.

    Those of all others come from their graphs, K (K + 1) / 2 second derivatives for K predictors.
    """

    def derivatives(
        self, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log-likelihoods (n,), their gradients (K, n) and Hessians (K, K, n).

        Parameters
        ----------
        arguments : ndarray, shape (K, n)
        y : ndarray, shape (n,)
        """
        ...


@runtime_checkable
class SmoothLikelihood(Likelihood, Protocol):
    """A log-concave likelihood without nuisances whose higher derivatives are known to be bounded.

    If it has several predictors it depends on their differences only. Its derivatives of higher
    order are then those along any direction u with ``max(u) - min(u) = 1``.

    Attributes
    ----------
    growth : float
        Far from any eta, at eta + u, the third and fourth derivative are at most
        ``exp(growth |u|)`` times ``derivative_bound(order, -inf, inf, y)`` if growth is zero, and
        times ``derivative_bound(order, eta, eta, y)`` otherwise.
    """

    growth: float

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return the largest ``|d^order log L / d eta^order|`` for eta between low and high.

        Parameters
        ----------
        order : {3, 4}
            With several predictors only the third order is asked for.
        low, high : float or ndarray of shape (n,), or (K, n)
        y : ndarray, shape (n,)
            Observed values.
        """
        ...
