"""Tables of counts of classes: multinomial variables with a softmax link."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pytensor.tensor.random.basic import MultinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import known_length
from pymc_flymc.likelihoods.binomial import check_trials
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.softmax import Softmax, log_sum_exp, read_softmax, with_reference
from pymc_flymc.likelihoods.value_checks import check_counts, check_values


@dataclass(frozen=True, kw_only=True)
class Multinomial(Softmax):
    """Observed counts of classes in n trials as in `Softmax`; all but the first are row data."""

    name = "multinomial"
    usage = "pm.Multinomial(n=n, p=pm.math.softmax(eta, axis=-1))"

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is ``pm.Multinomial``."""
        return rv.owner is not None and isinstance(rv.owner.op, MultinomialRV)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the predictors, the counts of all classes but the first, and n."""
        n, p = rv.owner.op.dist_params(rv.owner)
        check_trials(n, rv)
        eta = read_softmax(p)
        if eta is None:
            raise UnsupportedModelError(
                f"cannot read the observed variable {rv.name!r}: its p is not the softmax of a "
                f"matrix of predictors, over its last axis. Use {self.usage}, eta with one row for "
                f"each row of counts"
            )
        k = known_length(eta, 1)
        names = (*(f"the count of class {i}" for i in range(1, k + 1)), "n")
        likelihood = replace(self, n_predictors=k, row_data=names)
        return RowParameters(likelihood, eta, row_data=[*(rv[:, i] for i in range(1, k + 1)), n])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check counts of all classes and n, shape (N, K + 1), and return them as float64."""
        counts = [check_counts(column, name) for column in values.T]
        total, trials = np.sum(counts[:-1], axis=0), counts[-1]
        check_values(total == trials, total, f"the sum of counts of {name}", "n")
        return np.stack(counts, axis=1)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``sum_k y_k eta_k - n log sum exp eta``, without terms in y alone."""
        *counts, trials = y
        etas = with_reference(arguments)
        value = -trials * log_sum_exp(etas)
        for count, eta in zip(counts, etas, strict=True):
            value = value + count * eta
        return value

    def derivatives(
        self, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log-likelihoods, gradients ``y - n p`` and Hessians ``n (p p' - diag p)``."""
        counts, trials = y[:, :-1].T, y[:, -1]
        log_p, second = self.probabilities(arguments)
        first = counts - trials * np.exp(log_p)
        return np.sum(counts * log_p, axis=0), first[1:], trials * second

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return n times the bound of a softmax."""
        trials: np.ndarray = y[:, -1]
        return trials * super().derivative_bound(order, low, high, trials)
