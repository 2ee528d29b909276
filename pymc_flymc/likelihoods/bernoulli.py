"""Bernoulli variables, those with a logistic link first of all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BernoulliRV
from pytensor.tensor.variable import TensorVariable
from scipy.special import expit

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.base import Family, RowParameters
from pymc_flymc.likelihoods.forms import LOGISTIC
from pymc_flymc.likelihoods.links import find_predictor

__all__ = ["Bernoulli", "BernoulliLogit"]


class Bernoulli(Family):
    """Observed 0/1 with ``P(y_n = 1)`` the inverse link of a predictor."""

    name: str
    distributions = BernoulliRV
    #: Rounding errors allowed in the model's own way to write the link.
    rtol = 64 * float(np.finfo(np.float64).eps)

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the probability of a one, element by element."""
        raise NotImplementedError

    def log_likelihood(
        self, arguments: Sequence[TensorVariable], y: TensorVariable
    ) -> TensorVariable:
        """Return the graph of the log-likelihood, element by element."""
        raise NotImplementedError

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the predictor, found inside the graph of p.

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
            If p is not the inverse link of a part of its graph.
        """
        (p,) = rv.owner.op.dist_params(rv.owner)
        eta = find_predictor(p, self.inverse_link, self.rtol)
        if eta is not None:
            return RowParameters(self, eta)
        raise UnsupportedModelError(
            f"cannot read the observed variable {rv.name!r}: its p is not the logistic function of "
            "a linear predictor, nor the inverse of a probit or complementary log-log link. Use "
            "pm.Bernoulli(logit_p=eta), p=pm.math.sigmoid(eta), p=pm.math.invprobit(eta) or "
            "p=1 - pm.math.exp(-pm.math.exp(eta)), without clipping or mixtures"
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


class BernoulliLogit(Bernoulli):
    """Observed 0/1 with ``P(y_n = 1) = sigmoid(eta_n)``."""

    name = "bernoulli-logit"
    form = LOGISTIC
    usage = "pm.Bernoulli(logit_p=eta)"
    growth = 0.0

    def inverse_link(self, eta: np.ndarray) -> np.ndarray:
        """Return the logistic function."""
        return expit(eta)

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
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
