"""Log-likelihoods of rows with their derivatives, from the graph of a family."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import get_mode

from pymc_flymc.compat.pymc import CHECKS
from pymc_flymc.compat.pytensor import rewrites, unwrapped
from pymc_flymc.graphs.compilation import FLATTENING, IN_PLACE
from pymc_flymc.graphs.memoise import kept_on_disk, memoised
from pymc_flymc.kernels.native import environment, vector
from pymc_flymc.likelihoods.likelihood import (
    LOGISTIC,
    SOFTMAX,
    ExplicitLikelihood,
    Likelihood,
    SmoothedLikelihood,
    form_of,
    outcome,
)
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.reporting import COMPILING, doing

#: Width of the smoothing of likelihoods, in scales, before anything is known of the posterior.
DEFAULT_SMOOTHING = 0.3


class Derivatives(NamedTuple):
    """Log-likelihoods of n rows with derivatives in K predictors and S nuisance parameters."""

    value: np.ndarray  #: Shape (n,).
    first: np.ndarray  #: Shape (K, n).
    second: np.ndarray  #: Shape (K, K, n).
    mixed: np.ndarray  #: Shape (K, S, n).
    nuisance_first: np.ndarray  #: Sum over rows, shape (S,).
    nuisance_second: np.ndarray  #: Sum over rows, shape (S, S).

    def explained(self) -> np.ndarray:
        """Return the most that predictors can explain of the nuisances' curvature, (S, S)."""
        # With curvatures c and mixed derivatives m in one predictor it is the sum of m m' / c, by
        # the Cauchy-Schwarz inequality. Rows without curvature explain anything.
        s = self.mixed.shape[1]
        if len(self.first) > 1:
            return np.full((s, s), np.inf)
        (mixed,), curvature = self.mixed, -self.second[0, 0]
        related = mixed[:, np.any(mixed != 0.0, axis=0)]
        curvature = np.maximum(curvature[np.any(mixed != 0.0, axis=0)], 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((related / curvature) @ related.T)


class RowDerivatives:
    """Log-likelihood of each row with its first two derivatives in the row's arguments.

    The derivatives come from the likelihood's graph, unless it has methods for them; PyTensor
    compiles them for a family, not for a model, and keeps them on disk. A likelihood that is not
    smooth is smoothed, by the last column of observed values or a default.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        self._likelihood = likelihood
        self._of_classes = form_of(unweighted(likelihood)) in (LOGISTIC, SOFTMAX)
        self._is_smoothed = isinstance(likelihood, SmoothedLikelihood)
        self._sizes = k, s = likelihood.n_predictors, len(likelihood.nuisances)
        self._explicit = likelihood if isinstance(likelihood, ExplicitLikelihood) else None
        if self._explicit is not None:
            return
        etas = [pt.vector(f"eta_{i}", dtype="float64") for i in range(k)]
        # One number for all rows: functions of nuisance parameters alone are computed once.
        nuisances = [pt.vector(f"nuisance_{i}", dtype="float64", shape=(1,)) for i in range(s)]
        y = [pt.vector(name, dtype="float64") for name in ("y", *likelihood.row_data)]
        arguments = [*etas, *nuisances]
        if isinstance(likelihood, SmoothedLikelihood):
            rounding = pt.vector("rounding", dtype="float64")
            self._value = likelihood.smoothed(arguments, outcome(likelihood, y), rounding)
            y.append(rounding)
        else:
            self._value = likelihood.log_likelihood(arguments, outcome(likelihood, y))
        self._inputs, self._n_columns = [*arguments, *y], len(y)
        self._function = self._memoised(_compile_derivatives)
        self._is_compiled = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the family only: machine code cannot be pickled."""
        return RowDerivatives, (self._likelihood,)

    def _memoised(self, compile: Callable[..., Any]) -> Any:
        graph: Any = self._inputs, self._value, *self._sizes
        return memoised(compile, *graph, inputs=graph[0], outputs=[graph[1]], also=self._sizes)

    def third(self, arguments: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the third derivatives of a likelihood with one argument, shape (n,)."""
        (found,) = self._third(*np.require(arguments, np.float64, ["C", "W"]), *_columns(y))
        return np.asarray(found)

    @cached_property
    def _third(self) -> Callable[..., Any]:
        return self._memoised(_compile_third)  # type: ignore[no-any-return]

    def __call__(self, arguments: np.ndarray, y: np.ndarray) -> Derivatives:
        """Evaluate for arguments of shape (K + S, n), the last S rows of which are constant."""
        k, s = self._sizes
        n = len(y)
        if self._explicit is not None:
            value, first, second = self._explicit.derivatives(arguments, y)
            none = np.empty((k, 0, n)), np.empty(0), np.empty((0, 0))
            return Derivatives(value, first, second, *none)
        columns = _columns(y)
        if len(columns) < self._n_columns:
            columns.append(np.full(n, DEFAULT_SMOOTHING))
        arguments = np.require(arguments, np.float64, ["C", "W"])
        nuisances = [v[:1] for v in arguments[k:]]
        with nullcontext() if self._is_compiled else doing(COMPILING):
            values = iter(self._function(*arguments[:k], *nuisances, *columns))
        self._is_compiled = True  # the first call compiles

        def take(count: int, at: Any = slice(None)) -> np.ndarray:
            return np.array([next(values)[at] for _ in range(count)])

        value, first, nuisance_first = next(values), take(k), take(s, 0)
        second, (i, j) = np.empty((k, k, n)), np.triu_indices(k)
        second[i, j] = second[j, i] = take(len(i))
        mixed, nuisance_second = take(k * s).reshape(k, s, n), take(s * s, 0).reshape(s, s)
        return Derivatives(value, first, second, mixed, nuisance_first, nuisance_second)

    def missing_curvature(
        self, of: Derivatives, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return indices (m,) of rows that lack curvature, and what they lack, (K, K, m)."""
        # A row that is predicted badly, and with certainty, has a slope but no curvature: its
        # quadratic rises far beyond zero, which the logarithm of a probability does not exceed.
        # With this curvature its maximum along the row's gradient is zero. A row of a likelihood
        # that is not smooth is like this far from its outcome, at which its likelihood is largest:
        # with this curvature the row's own Newton step ends there. Other families have no such
        # rows.
        few = np.empty(0, np.int64)
        factor = np.empty(0)
        steps = 1.0 if self._is_smoothed else 0.5
        if self._of_classes or self._is_smoothed:
            to_gain = -of.value
            if self._is_smoothed:
                at_outcomes = arguments.copy()
                at_outcomes[0] = _columns(y)[0]
                to_gain = self(at_outcomes, y).value - of.value
            slope2 = np.sum(of.first**2, axis=0)
            along = -np.einsum("in,ijn,jn->n", of.first, of.second, of.first)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                factor = steps / to_gain - along / slope2**2
            few = np.flatnonzero((to_gain > 0.0) & (factor > 0.0) & (factor < np.inf))
        first = of.first[:, few]
        return few, factor[few] * first[:, None] * first


def _compile_derivatives(inputs: list[Any], value: Any, k: int, s: int) -> Any:
    """Compile row values with derivatives in K predictors and S nuisances, in a fixed order."""
    etas, nuisances = inputs[:k], inputs[k : k + s]

    def compile() -> Any:
        first: Any = pytensor.grad(value.sum(), [*etas, *nuisances])

        def second(i: int, j: int) -> Any:
            wrt = (etas + nuisances)[j]
            return pytensor.grad(first[i].sum(), wrt, disconnected_inputs="ignore")

        outputs = [value, *first]
        outputs += [second(i, j) for i in range(k) for j in range(i, k)]
        outputs += [second(k + j, i) for i in range(k) for j in range(s)]
        outputs += [second(k + i, k + j) for i in range(s) for j in range(s)]
        return _compiled(inputs, outputs)

    return kept_on_disk(compile, [vector()] * len(inputs), inputs, [value], (k, s))


def _compile_third(inputs: list[Any], value: Any, k: int, s: int) -> Any:
    """Compile third derivatives in the one predictor."""

    def compile() -> Any:
        derivative = value
        for _ in range(3):
            derivative = pytensor.grad(derivative.sum(), inputs[0])
        return _compiled(inputs, [derivative])

    return kept_on_disk(compile, [vector()] * len(inputs), inputs, [value])


def _compiled(inputs: list[Any], outputs: list[Any]) -> Callable[..., Any]:
    """Return a compiled function of float64 arrays that several threads may call at once."""
    mode = get_mode("NUMBA").including(*rewrites(CHECKS)).excluding(*FLATTENING, *IN_PLACE)
    function = pytensor.function(inputs, outputs, mode=mode, trust_input=True)
    return unwrapped(function, environment())


def _columns(y: np.ndarray) -> list[np.ndarray]:
    """Return the columns of observed values, (n,) or (n, C), in arrays of one numba type."""
    return list(np.require(np.atleast_2d(y.T), np.float64, ["C", "W"]))
