"""Overdispersed counts: negative binomial variables with a log link."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import equal_computations
from pytensor.scalar import basic as ps
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import NegBinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.binomial import BinomialLogit
from pymc_flymc.likelihoods.checks import (
    check_counts,
    check_parameter,
    check_values,
    is_positive,
    scalar_parameter,
)
from pymc_flymc.likelihoods.family import Family
from pymc_flymc.likelihoods.jets import log_rising_of_exp
from pymc_flymc.likelihoods.likelihood import NEGATIVE_BINOMIAL, RowParameters
from pymc_flymc.likelihoods.links import find_log_mean, find_log_odds, unreadable
from pymc_flymc.likelihoods.products import is_from, without


class _NegativeBinomial(Family):
    """Base of the families with a fixed and with a free alpha."""

    usage = "pm.NegativeBinomial(mu=pm.math.exp(eta), alpha=alpha)"
    distributions: Any = NegBinomialRV
    zero_at_no_mean = True


class NegativeBinomialLog(_NegativeBinomial, BinomialLogit):
    r"""Observed counts with ``mean = exp(eta_n)`` and a known alpha.

    In :math:`\psi = \eta - \log\alpha` the log-likelihood is, up to terms in y alone,
    :math:`y \psi - (y + \alpha) \log(1 + e^\psi)`: that of y successes in :math:`y + \alpha` trials
    with log odds :math:`\psi`.
    """

    name = "negative-binomial-log"
    row_data: tuple[str, ...] = ("alpha",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, and alpha, which may have a value for each row."""
        _, psi, alpha = read_negative_binomial(rv)
        if free_inputs([alpha]):
            raise UnsupportedModelError(f"alpha of the observed variable {rv.name!r} is free")
        check_parameter(alpha, "alpha", rv)
        return RowParameters(self, psi, row_data=[alpha])

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check counts, the first column of (N, 2), and return columns y and y + alpha."""
        y, alpha = check_counts(values[:, 0], name), check_alpha(values[:, 1], name)
        return np.stack([y, y + alpha], axis=1)


class NegativeBinomialFree(_NegativeBinomial):
    r"""Observed counts with ``mean = exp(eta_n)`` and an alpha that is sampled.

    The predictor is :math:`\psi = \eta - \log\alpha`, whose intercept may depend on alpha.
    """

    name = "negative-binomial-free"
    form = NEGATIVE_BINOMIAL
    nuisances: tuple[str, ...] = ("log alpha",)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi and log alpha."""
        _, psi, alpha = read_negative_binomial(rv)
        return RowParameters(self, psi, [pt.log(scalar_parameter(alpha, "alpha", rv))])

    read_observed = staticmethod(check_counts)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return the log-likelihood without ``log y!``."""
        psi, log_alpha = arguments
        alpha = pt.exp(log_alpha)
        return y * psi - (y + alpha) * pt.softplus(psi) + log_rising_of_exp(log_alpha, y)


def check_alpha(alpha: np.ndarray, name: str) -> np.ndarray:
    """Return the alpha of each row, which must be positive and finite."""
    check_values(is_positive(alpha), alpha, f"alpha of {name}", "positive and finite")
    return alpha


def read_negative_binomial(rv: TensorVariable) -> tuple[Any, Any, Any]:
    """Return the log mean, psi = log(mean / alpha), which are the log odds of 1 - p, and alpha."""
    alpha, p = rv.owner.op.dist_params(rv.owner)
    minus_psi = find_log_odds(p, rv)
    if minus_psi is not None:
        logs = _logs_of_a_ratio(minus_psi)
        if logs is None:
            return pt.log(alpha) - minus_psi, -minus_psi, alpha
        eta = find_log_mean(logs[1], rv, of_counts=True)
        if eta is not None:
            psi = eta - pt.log(logs[0])
            # In a p that the model itself writes as such odds, the first number may be another one.
            is_alpha = equal_computations([logs[0]], [without(alpha, DimShuffle)])
            return eta if is_alpha else psi + pt.log(alpha), psi, alpha
    usage = f"{_NegativeBinomial.usage}, or mu=exposure * pm.math.exp(eta)"
    raise unreadable(rv, "mu", "exponential", usage)


def _logs_of_a_ratio(v: TensorVariable) -> tuple[TensorVariable, TensorVariable] | None:
    """Return (a, b) if v is log(a) - log(b), as PyMC writes the log odds; else None."""
    if not is_from(v, ps.Sub):
        return None
    parts = [without(part, DimShuffle) for part in v.owner.inputs]
    if not all(is_from(part, ps.Log) for part in parts):
        return None
    return parts[0].owner.inputs[0], parts[1].owner.inputs[0]
