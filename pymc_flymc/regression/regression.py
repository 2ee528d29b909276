"""The regressions of a model, one for each likelihood, and their log-likelihoods together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.expansion import JointExpansion
from pymc_flymc.regression.passes import likelihood_pass


@dataclass(frozen=True)
class Regression:
    """A regression on many rows, on the observed variable `name`.

    y is (N,), or (N, 1 + R) with R columns of row data, in a small dtype (int8 for Bernoulli).
    """

    name: str
    design: Design
    y: np.ndarray
    likelihood: Likelihood

    @cached_property
    def derivatives(self) -> RowDerivatives:
        """Return the rows' log-likelihoods with their derivatives, compiled at the first use."""
        return RowDerivatives(self.likelihood)


def names_of(regressions: Sequence[Regression]) -> str:
    """Return the names of the observed variables, each once, for messages."""
    return " and ".join(dict.fromkeys(repr(regression.name) for regression in regressions))


def slices_of(regressions: Sequence[Regression]) -> list[slice]:
    """Return where the coefficients of each regression are in the vector of all."""
    stops = np.cumsum([regression.design.n_coefficients for regression in regressions])
    return [slice(a, b) for a, b in zip([0, *stops[:-1]], stops, strict=True)]


def expand(
    regressions: Sequence[Regression], w: np.ndarray, strides: Sequence[int] | None = None
) -> JointExpansion:
    """Expand all regressions' log-likelihoods in one pass over every stride-th row, scaled up."""
    return JointExpansion(
        tuple(
            likelihood_pass(each.design, each.y, each.derivatives, w[span], stride)
            for each, span, stride in zip(
                regressions, slices_of(regressions), strides or [1] * len(regressions), strict=True
            )
        )
    )
