"""Censored variables, and censored normal noise: tobit regression."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.random.basic import LogNormalRV, NormalRV
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs
from pymc_flymc.likelihoods.checks import check_values, is_positive
from pymc_flymc.likelihoods.family import SmoothFamily
from pymc_flymc.likelihoods.jets import log_normal_cdf
from pymc_flymc.likelihoods.likelihood import RowParameters
from pymc_flymc.likelihoods.location_scale import scale_and_unit

_CENSORED: Any = pm.Censored.rv_type
#: What values must be, for messages: values beyond the limits have the state NaN.
WITHIN_LIMITS = "{}, or beyond the limit of censoring"


class Censoring(NamedTuple):
    """A variable without its censoring, and which of its values are censored."""

    variable: TensorVariable
    #: Graph of 1 at the upper limit, -1 at the lower one, 0 between them and NaN beyond them: for
    #: each row, or for all. The observed variable stands for its values.
    state: TensorVariable
    from_left: bool  #: Whether there may be values at a lower limit.


def is_censored(rv: TensorVariable) -> bool:
    """Return whether a random variable is ``pm.Censored``."""
    return rv.owner is not None and isinstance(rv.owner.op, _CENSORED)


def uncensored(rv: TensorVariable) -> TensorVariable:
    """Return the variable inside ``pm.Censored``, or the variable itself."""
    return rv.owner.op.dist_params(rv.owner)[0] if is_censored(rv) else rv


def censoring_of(rv: TensorVariable, lowest: float) -> Censoring:
    """Return which values of a variable, always above `lowest`, are censored at fixed limits."""
    if not is_censored(rv):
        return Censoring(rv, pt.constant(0.0), False)
    variable, lower, upper = rv.owner.op.dist_params(rv.owner)
    if free_inputs([lower, upper]):
        raise UnsupportedModelError(
            f"a limit of the observed variable {rv.name!r} is free; Firefly needs limits of "
            "censoring that are data: numbers, an array or pm.Data"
        )
    beyond = pt.gt(rv, upper) | pt.lt(rv, lower)
    # If both limits are equal, PyMC takes the value for one at the lower limit.
    sides = pt.switch(pt.le(rv, lower), -1.0, pt.ge(rv, upper).astype("float64"))
    from_left = not (all(lower.type.broadcastable) and np.all(evaluate(lower) <= lowest))
    return Censoring(variable, pt.switch(beyond, np.nan, sides), from_left)


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
