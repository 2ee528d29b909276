"""What the sampler needs to know about a family of observed variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from pytensor.tensor.variable import TensorVariable


@dataclass(frozen=True)
class RowParameters:
    """Parameters of an observed variable, as graphs, and their family.

    Attributes
    ----------
    likelihood : Likelihood
        The family as this model has it, with what the model gives, such as the number of classes
        or a fixed shape. If it gives nothing, the family whose `read` made this.
    predictors : TensorVariable
        Linear predictors: a vector with a value for each row, or a matrix, shape (N, K).
    nuisances : list of TensorVariable
        Scalars that all rows share, on the unconstrained scale.
    row_data : list of TensorVariable
        Constants that each row has in addition to its observed value, such as a number of trials:
        vectors of length N, or scalars.
    cutpoints : TensorVariable, optional
        Of ordered levels, a vector. Then the rows of the regression are comparisons of the observed
        levels with them, and the likelihood is the one of a comparison.
    rest : TensorVariable, optional
        Terms of a row's log-likelihood that the family does not have: a scalar, or a vector that
        is linear in the data, as a predictor is. So their sum over rows collapses.
    unit : TensorVariable, optional
        Positive data, a number for each row: predictors are in these units, outcomes not yet.

    Notes
    -----
    In the graphs of predictors, row data and `rest` the random variable itself stands for its
    observed values.
    """

    likelihood: Likelihood
    predictors: TensorVariable
    nuisances: list[TensorVariable] = field(default_factory=list)
    row_data: list[TensorVariable] = field(default_factory=list)
    cutpoints: TensorVariable | None = None
    rest: TensorVariable | None = None
    unit: TensorVariable | None = None


class Likelihood(Protocol):
    """One family of row likelihoods ``L_n = f(y_n, eta_n, nuisances)``.

    The *arguments* of a row are its predictors eta_n, each linear in coefficients, and the
    nuisance parameters, in this order.

    Attributes
    ----------
    name : str
        Name of the family.
    n_predictors : int
    nuisances : tuple of str
        Names of the nuisance parameters.
    row_data : tuple of str
        Names of the constants that each row has in addition to its observed value.

    Notes
    -----
    `matches` and `read` find the family of an observed variable. All other methods are called on
    the family that `read` returns. So a family that depends on the model, such as on the number of
    classes, may be a dataclass whose `read` returns a copy of itself with that filled in.

    Families of this package have an attribute `usage`: how a model writes them, such as
    ``"pm.Poisson(mu=pm.math.exp(eta))"``, for messages and the list in the documentation.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def n_predictors(self) -> int: ...  # noqa: D102

    @property
    def nuisances(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def row_data(self) -> tuple[str, ...]: ...  # noqa: D102

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable has this family's distribution."""
        ...

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the parameters of a random variable that ``matches``, in the same graph.

        The result names the family as this model has it.

        Raises
        ------
        UnsupportedModelError
            If its parameters are not those of this family.
        """
        ...

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check observed values, shape (N,), and return them in a small dtype.

        With R columns of row data the values are of shape (N, 1 + R), and so is the result: the
        numbers of which `log_likelihood` is a function.

        Raises
        ------
        ValueError
            If a value is impossible; `name` is the observed variable's, for the message.
        """
        ...

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return the graph of ``log L``, element by element, for arguments and y of one shape.

        With row data y is a list: the columns of the observed values.
        """
        ...


def is_likelihood(kind: type) -> bool:
    """Return whether the objects of a class are families of likelihoods."""
    return hasattr(kind, "matches")


def outcome(likelihood: Likelihood, columns: Sequence[Any]) -> Any:
    """Return what `Likelihood.log_likelihood` takes as y, from the columns of observed values."""
    return list(columns) if likelihood.row_data else columns[0]


@runtime_checkable
class ExplicitLikelihood(Likelihood, Protocol):
    """A likelihood without nuisance parameters that has its derivatives in closed form.

    The graphs of all other likelihoods are differentiated: K (K + 1) / 2 times for K predictors.
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
    """A likelihood without nuisance parameters whose higher derivatives have known bounds.

    Its derivatives of higher order are those along any direction u with
    ``max(0, u) - min(0, u) = 1``. For one predictor this is the ordinary derivative.

    Attributes
    ----------
    log_concave : bool
        Whether the log-likelihoods of all rows are concave, which steps check. Bounds do not depend
        on it.
    growth : float
        Far from any eta, at eta + u, the third and fourth derivative are at most
        ``exp(growth |u|)`` times ``derivative_bound(order, -inf, inf, y)`` if growth is zero, and
        times ``derivative_bound(order, eta, eta, y)`` otherwise.
    """

    growth: float
    log_concave: bool = True

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return the largest ``|d^order log L / d eta^order|`` for eta between low and high.

        Parameters
        ----------
        order : {3, 4}
            With several predictors only the third order is used.
        low, high : float or ndarray of shape (n,), or (1 + K, n) for K > 1 predictors
            With several predictors, limits of zero and of the predictors up to a common shift:
            their differences are those of numbers between low and high.
        y : ndarray, shape (n,) or (n, 1 + R)
            Observed values.
        """
        ...


@runtime_checkable
class ScaledLikelihood(Likelihood, Protocol):
    """A smooth likelihood to a power that is sampled, with its normaliser.

    Its log-likelihood is ``exp(s)`` times the smooth one's, plus ``log_normaliser(s)``. The only
    nuisance parameter is s.
    """

    def unit(self, y: np.ndarray) -> tuple[SmoothLikelihood, np.ndarray]:
        """Return the smooth likelihood, up to constants, and its observed values, (n, 1 + R)."""
        ...

    def log_normaliser(self, log_scale: TensorVariable) -> TensorVariable:
        """Return the graph of the normaliser of each row."""
        ...


@runtime_checkable
class JointlySmoothLikelihood(Likelihood, Protocol):
    """A smooth likelihood of several predictors of different kinds, without nuisance parameters.

    Its third derivatives are along a direction with a spread for each element. It need not be
    log-concave.
    """

    def third_bound(
        self, eta: np.ndarray, half_width: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return a bound on the third derivatives near eta, shape (n,).

        Parameters
        ----------
        eta, half_width : ndarray, shape (K, n)
            The bound holds at eta plus or minus at most the half-width.
        spread : ndarray, shape (K, n)
            The derivatives are along directions whose elements are at most these.
        y : ndarray, shape (n,) or (n, 1 + R)
            Observed values.
        """
        ...

    def third_beyond(
        self, eta: np.ndarray, spread: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return a bound on the third derivatives anywhere: a scale and a rate, both of shape (n,).

        If no predictor is further from eta than d times its spread, they are at most
        ``scale * exp(rate * d)``.
        """
        ...


@runtime_checkable
class SmoothedLikelihood(Likelihood, Protocol):
    """A likelihood that is not smooth everywhere: the search for the mode smooths it."""

    def smoothed(
        self, arguments: Sequence[TensorVariable], y: TensorVariable, rounding: TensorVariable
    ) -> TensorVariable:
        """Return the graph of a smooth function that goes to ``log L`` as `rounding` goes to zero.

        It affects where bounds are tuned and how proposals are made, but not the posterior.
        """
        ...

    def rounding(self, spread: np.ndarray, nuisances: np.ndarray) -> np.ndarray:
        """Return the width of the smoothing, shape (n,), for predictors of this sd, shape (n,).

        The nuisance parameters are of shape (S,).
        """
        ...


#: Name of the nuisance parameter that is the logarithm of the scale of noise.
LOG_SCALE = "log sigma"
#: Forms of log-likelihoods, the attribute `form` of a family, that bounds rely on: with predictor
#: eta and y = 0 or 1, or columns of successes s and trials m, ``s eta - m log(1 + exp(eta))``;
LOGISTIC = "logistic"
#: with nuisance parameter log alpha and counts y, ``y psi - (y + alpha) log(1 + exp(psi)) +
#: log Gamma(y + alpha) - log Gamma(alpha)``;
NEGATIVE_BINOMIAL = "negative binomial"
#: with predictors of classes 1 to K - 1, less class 0's, the logarithm of the softmax of y.
SOFTMAX = "softmax"


def says(likelihood: Likelihood, name: str, of: Sequence[str] = ("log_likelihood",)) -> bool:
    """Return whether a family's attribute `name` was declared for its current methods `of`.

    A subclass that overrides the log-likelihood must repeat declarations of its base class.
    """
    kinds = type(likelihood).__mro__

    def first(name: str) -> int:
        return next((i for i, kind in enumerate(kinds) if name in vars(kind)), len(kinds))

    said = first(name)
    return said < len(kinds) and all(said <= first(method) for method in of)


def form_of(likelihood: Likelihood) -> str | None:
    """Return the form of a family's log-likelihood, or None if no declaration holds."""
    return str(likelihood.form) if says(likelihood, "form") else None  # type: ignore[attr-defined]
