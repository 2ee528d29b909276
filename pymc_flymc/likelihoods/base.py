"""What the sampler needs to know about a family of observed variables."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from pytensor.tensor.variable import TensorVariable


class Likelihood(Protocol):
    """One family of row likelihoods ``L_n = f(y_n, eta_n)`` with a linear predictor ``eta_n``.

    Attributes
    ----------
    name : str
        Name of the family. Bounds list the names of the families that they are valid for.
    """

    name: str

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable has this family's distribution."""
        ...

    def read(self, rv: TensorVariable) -> TensorVariable:
        """Return the predictor of a random variable that ``matches``, in the same graph.

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

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float
    ) -> np.ndarray:
        """Return the largest ``|d^order log L / d eta^order|`` for eta between low and high.

        Parameters
        ----------
        order : {3, 4}
        low, high : float or ndarray of shape (n,)
        """
        ...

    def log_likelihood(self, eta: TensorVariable, y: TensorVariable) -> TensorVariable:
        """Return the graph of ``log L`` for predictors and observed values of one shape."""
        ...
