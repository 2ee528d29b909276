"""Counts that are never zero: zero-truncated Poisson and negative binomial variables, log link."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.random.basic import NegBinomialRV, PoissonRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import evaluate, free_inputs, has_rows_of_data
from pymc_flymc.likelihoods.checks import check_counts, check_values
from pymc_flymc.likelihoods.family import Family, SmoothFamily
from pymc_flymc.likelihoods.jets import log_positive, log_softplus
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.negative_binomial import NegativeBinomialLog, check_alpha
from pymc_flymc.likelihoods.poisson import PoissonLog

_TRUNCATED: Any = pm.Truncated.rv_type


def check_positive_counts(values: np.ndarray, name: str) -> np.ndarray:
    """Return observed counts from 1 on as float64; refuse other values."""
    values = check_counts(values, name)
    check_values(values > 0, values, name, "counts from 1 on")
    return values


class ZeroTruncated(Family):
    """Base of families of counts that are never zero."""

    read_observed = staticmethod(check_positive_counts)

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a variable is one of the family's distributions, from 1 on."""
        if rv.owner is None or not isinstance(rv.owner.op, _TRUNCATED):
            return False
        lower, upper = rv.owner.inputs[-2:]
        return (
            isinstance(rv.owner.op.base_rv_op, self.distributions)
            and not (has_rows_of_data(lower) or has_rows_of_data(upper))
            and not free_inputs([lower, upper])
            and bool(np.all(evaluate(lower) == 1) and np.all(evaluate(upper) == np.inf))
        )


class ZeroTruncatedPoisson(ZeroTruncated):
    r"""Observed counts from 1 on, of a Poisson variable with mean ``t = exp(eta_n)``.

    Up to a constant the log-likelihood is :math:`y \eta - \log(e^t - 1)`. The derivatives of its
    second term are the cumulants of the variable, up to sign.
    """

    name = "zero-truncated-poisson"
    usage = "pm.HurdlePoisson(psi=psi, mu=pm.math.exp(eta))"
    distributions: Any = PoissonRV
    #: The fourth cumulant is at most 1.3457 times the third, the fifth 1.4121 times the fourth.
    growth = 1.4121
    log_concave = True

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return the log mean of the variable that is not truncated, as `PoissonLog.read` does."""
        return replace(PoissonLog().read(untruncated(rv)), likelihood=self)

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return a bound on the third or fourth cumulant at the high end: both increase."""
        # It is tighter than a bound from the graph, whose terms cancel. In t they begin with t/2 +
        # t^2/3 and t/2 + 2 t^2/3, which are bounds, exceed t by no more than 11.2 and 30.7 percent,
        # and approach it again exponentially fast.
        t = np.exp(np.asarray(high, dtype=np.float64))
        slope, most = {3: (1.0 / 3.0, 1.112), 4: (2.0 / 3.0, 1.307)}[order]
        far = np.minimum(t, 700.0)
        tail = 1.0 + far ** (order - 1) * np.exp(-far)
        return np.asarray(t * np.minimum(np.minimum(0.5 + slope * t, most), tail))

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y eta - t - log(1 - exp(-t))``."""
        (eta,) = arguments
        return y * eta - pt.exp(eta) - log_positive(eta)


class ZeroTruncatedNegativeBinomial(ZeroTruncated, SmoothFamily):
    r"""Observed counts from 1 on, of a negative binomial variable with a known alpha.

    In :math:`\psi = \eta - \log\alpha` zero has the probability :math:`e^{-s}`, where
    :math:`s = \alpha \log(1 + e^\psi)`, and the log-likelihood is the one of `NegativeBinomialLog`
    less :math:`\log(1 - e^{-s})`.
    """

    name = "zero-truncated-negative-binomial"
    usage = "pm.HurdleNegativeBinomial(psi=psi, mu=pm.math.exp(eta), alpha=alpha)"
    distributions: Any = NegBinomialRV
    row_data: tuple[str, ...] = ("alpha",)
    #: It is not log-concave for an alpha below one and large means.
    log_concave = False

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, and alpha, which may have a value for each row."""
        return replace(NegativeBinomialLog().read(untruncated(rv)), likelihood=self)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check counts, the first column of (N, 2), and return them with alpha."""
        alpha = check_alpha(values[:, 1], name)
        return np.column_stack([check_positive_counts(values[:, 0], name), alpha])

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``y psi - (y + alpha) log(1 + exp(psi)) - log(1 - exp(-s))``."""
        (psi,), (count, alpha) = arguments, y
        log_s = pt.log(alpha) + log_softplus(psi)
        value: Any = count * psi - (count + alpha) * pt.softplus(psi) - log_positive(log_s)
        return value


def untruncated(rv: TensorVariable) -> TensorVariable:
    """Return the variable inside the truncation."""
    whole = rv.owner.op.base_rv_op.make_node(*rv.owner.inputs[:-2]).default_output()
    whole.name = rv.name
    return whole
