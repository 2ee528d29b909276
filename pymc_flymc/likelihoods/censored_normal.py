"""Censored normal noise: tobit regression, and accelerated failure times that are log-normal."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LogNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.graphs.tools import free_inputs
from pymc_flymc.likelihoods.censoring import WITHIN_LIMITS, censoring_of, is_censored, uncensored
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.functions import log_normal_cdf
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.location_scale import scale_and_unit
from pymc_flymc.likelihoods.value_checks import check_values, is_positive


@dataclass(frozen=True)
class CensoredNormal(SmoothFamily):
    r"""Values with normal noise around the predictor, or their logarithms, censored at limits.

    The predictor here is :math:`\psi = (\eta - y) / \sigma`, which is linear in coefficients over
    :math:`\sigma` and in :math:`1 / \sigma` itself: if sigma is sampled, the design has a column of
    y. The log-likelihood is :math:`-\psi^2 / 2 - \log\sigma` for an uncensored value,
    :math:`\log\Phi(\psi)` at the upper limit, and :math:`\log\Phi(-\psi)` at the lower limit. The
    first of them is its own expansion. Olsen, R. J. (1978), Note on the uniqueness of the maximum
    likelihood estimator for the Tobit model, *Econometrica* 46, 1211-1215.
    """

    of_logarithms: bool = False  #: Whether the model observes values whose logarithms are normal.
    name = "censored-normal"
    usage = (
        "pm.Censored(pm.Normal.dist(eta, sigma), lower=lower, upper=upper), "
        "pm.Censored(pm.LogNormal.dist(eta, sigma), lower=lower, upper=upper)"
    )
    row_data: tuple[str, ...] = ("the state",)

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is a censored normal or log-normal one."""
        return is_censored(rv) and isinstance(uncensored(rv).owner.op, NormalRV | LogNormalRV)

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return psi, which values are censored, and the further terms of uncensored ones."""
        of_logarithms = isinstance(uncensored(rv).owner.op, LogNormalRV)
        normal, state, _ = censoring_of(rv, lowest=0.0 if of_logarithms else -np.inf)
        mu, sigma = normal.owner.op.dist_params(normal.owner)
        scale, unit = scale_and_unit(sigma, "sigma", rv)
        psi = mu - (pt.log(rv) if of_logarithms else rv)
        psi = (psi if unit is None else psi / unit) / scale
        rest = pt.eq(state, 0.0) * -pt.log(scale) if free_inputs([scale]) else None
        likelihood = replace(self, of_logarithms=of_logarithms)
        return RowParameters(likelihood, psi, row_data=[state], rest=rest)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Return whether values are uncensored, and at which limit they are otherwise, (N, 2)."""
        y, state = np.asarray(values, dtype=np.float64).T
        good, what = np.isfinite(y), "finite"
        if self.of_logarithms:
            good, what = is_positive(y), "positive and finite"
        check_values(good & ~np.isnan(state), y, name, WITHIN_LIMITS.format(what))
        return np.column_stack([state == 0.0, np.where(state == 0.0, 1.0, state)])

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``-psi^2 / 2``, or the logarithm of the normal distribution function."""
        (psi,), (seen, side) = arguments, y
        return pt.switch(seen > 0.5, -0.5 * pt.sqr(psi), log_normal_cdf(side * psi))
