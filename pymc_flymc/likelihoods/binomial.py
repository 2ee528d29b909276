"""Grouped binary outcomes: binomial variables with a logistic link."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import BinomialRV, GeometricRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.checks import check_counts, check_parameter, check_values
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.likelihood import LOGISTIC, RowParameters
from pymc_flymc.likelihoods.links import find_log_odds, unreadable


class BinomialLogit(SmoothFamily):
    """Observed successes in n trials, each with ``P(success) = sigmoid(eta_n)``."""

    name = "binomial-logit"
    form = LOGISTIC
    usage = "pm.Binomial(n=n, logit_p=eta)"
    distributions: Any = BinomialRV
    row_data: tuple[str, ...] = ("n",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log odds, found inside the graph of p, and the number of trials."""
        n, p = rv.owner.op.dist_params(rv.owner)
        check_trials(n, rv)
        eta = find_log_odds(p, rv)
        if eta is None:
            usage = f"{self.usage} or p=pm.math.sigmoid(eta), without clipping or mixtures"
            raise unreadable(rv, "p", "logistic", usage)
        return RowParameters(self, eta, row_data=[n])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check successes and trials, shape (N, 2), and return them as float64."""
        values = np.asarray(values, dtype=np.float64)
        successes, trials = values.T
        whole = (values == np.floor(values)).all(axis=1) & (trials < np.inf)
        bad = np.flatnonzero(~(whole & (successes >= 0) & (successes <= trials)))
        if bad.size:
            first = bad[0]
            raise ValueError(
                f"{name} has {bad.size} values that are not counts between 0 and n, first in row "
                f"{first}: {successes[first]:g} with n = {trials[first]:g}; correct or drop these "
                "rows"
            )
        return values

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y eta - n log(1 + exp(eta))``, without terms in y alone."""
        (eta,), (successes, trials) = arguments, y
        return successes * eta - trials * pt.softplus(eta)


class Geometric(BinomialLogit):
    """Observed numbers of trials up to the first success, as one success in so many trials."""

    name = "geometric"
    usage = "pm.Geometric(p=pm.math.sigmoid(eta))"
    distributions: Any = GeometricRV

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log odds; the values themselves are the numbers of trials."""
        (p,) = rv.owner.op.dist_params(rv.owner)
        eta = find_log_odds(p, rv)
        if eta is None:
            raise unreadable(rv, "p", "logistic", self.usage)
        return RowParameters(self, eta, row_data=[rv])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return one success, and the number of trials, shape (N, 2)."""
        trials = check_counts(values[:, 0], name)
        check_values(trials > 0, trials, name, "counts from 1 on")
        return np.column_stack([np.ones_like(trials), trials])


def check_trials(n: TensorVariable, rv: TensorVariable) -> None:
    """Refuse numbers of trials that are negative, or that depend on variables."""
    if free_inputs([n]):
        raise UnsupportedModelError(
            f"n of the observed variable {rv.name!r} depends on other variables; Firefly needs "
            "numbers of trials that are data: a constant or pm.Data"
        )
    expected = "zero or more, and not missing (PyMC makes such an integer of NaN)"
    check_parameter(n, "n", rv, expected, lambda values: values >= 0)
