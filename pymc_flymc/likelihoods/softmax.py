"""Several classes: categorical and multinomial variables with a softmax link."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.ops import ViewOp
from pytensor.gradient import disconnected_grad
from pytensor.tensor.random.basic import CategoricalRV, DirichletRV, MultinomialRV
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.special import Softmax as SoftmaxOp
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import index_of, known_length
from pymc_flymc.likelihoods.bernoulli import check_trials
from pymc_flymc.likelihoods.checks import check_counts, check_values
from pymc_flymc.likelihoods.likelihood import SOFTMAX, RowParameters
from pymc_flymc.likelihoods.ordered import is_cumulative


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Observed classes with ``P(y_n = k) = exp(eta_nk) / sum_l exp(eta_nl)``, where eta_n0 = 0."""

    n_predictors: int = 0  #: Number of classes less one, K - 1, which `read` fills in.
    name = "softmax"
    form = SOFTMAX
    usage = "pm.Categorical(logit_p=eta)"
    nuisances: tuple[str, ...] = ()
    row_data: tuple[str, ...] = ()
    growth = 0.0
    log_concave = True

    def matches(self, rv: TensorVariable) -> bool:
        """Return whether a random variable is written as ``pm.Categorical``."""
        return (
            rv.owner is not None
            and isinstance(rv.owner.op, CategoricalRV)
            and not is_cumulative(rv)
        )

    def read(self, rv: TensorVariable) -> RowParameters:
        """Return columns 1 to K - 1 of the softmax's argument less column 0, and K."""
        (p,) = rv.owner.op.dist_params(rv.owner)
        eta = read_softmax(p)
        if eta is None:
            raise UnsupportedModelError(
                f"cannot read the observed variable {rv.name!r}: its p is not the softmax of a "
                "matrix of predictors, over its last axis. Use pm.Categorical(logit_p=eta) or "
                "p=pm.math.softmax(eta, axis=-1), eta with one row for each observed value. "
                "Ordered levels are pm.OrderedLogistic(eta=eta, cutpoints=cutpoints); those of "
                "other kinds pm.Bernoulli for y >= k, which keeps the order for one level k"
            )
        return RowParameters(replace(self, n_predictors=known_length(eta, 1)), eta)

    def read_observed(self, values: np.ndarray, name: str) -> np.ndarray:
        """Check that observed values are 0, ..., K - 1, and return them in a small dtype."""
        good = (values == np.floor(values)) & (values >= 0) & (values <= self.n_predictors)
        check_values(good, values, name, f"classes 0 to {self.n_predictors}")
        return values.astype(np.int16)

    def log_likelihood(self, arguments: Sequence[Any], y: Any) -> TensorVariable:
        """Return ``eta_y - log sum exp eta``, which neither overflows nor cancels."""
        chosen: Any = 0.0
        for k, eta in enumerate(arguments, start=1):
            chosen = chosen + pt.switch(pt.eq(y, float(k)), eta, 0.0)
        return chosen - log_sum_exp(with_reference(arguments))

    def derivatives(
        self, arguments: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log-likelihoods, gradients ``e_y - p`` and Hessians ``p p' - diag p``."""
        log_p, second = self.probabilities(arguments)
        # If weights are in the same array, classes are floats.
        y, each = y.astype(np.intp, copy=False), np.arange(arguments.shape[1])
        first = -np.exp(log_p)
        first[y, each] += 1.0
        return log_p[y, each], first[1:], second

    def probabilities(self, arguments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return logarithms of all classes' probabilities, (K, n), and Hessians of any of them."""
        eta = np.concatenate([np.zeros_like(arguments[:1]), arguments])
        log_p = eta - np.logaddexp.reduce(eta, axis=0)
        p = np.exp(log_p)
        second = p[:, None] * p
        # p (1 - p), which does not cancel where p is close to one.
        for k in range(len(p)):
            second[k, k] = -p[k] * (p[:k].sum(axis=0) + p[k + 1 :].sum(axis=0))
        return log_p, second[1:, 1:]

    def derivative_bound(
        self, order: int, low: np.ndarray | float, high: np.ndarray | float, y: np.ndarray
    ) -> np.ndarray:
        """Return a bound on the third derivative along a direction of range one."""
        # It is a third central moment of a variable of range one: at most 1/(6 sqrt 3). If one
        # value has a probability of at least 1 - q, it is also at most q, as the mean squared
        # distance from that value bounds it.
        limit = np.full(np.shape(y), 1.0 / (6.0 * np.sqrt(3.0)))
        if np.ndim(low) == 0:
            return limit
        low, high = np.asarray(low), np.asarray(high)
        if low.ndim == 1:
            low, high = (np.stack([np.zeros_like(edge), edge]) for edge in (low, high))
        top, each = low.argmax(axis=0), np.arange(low.shape[1])
        log_odds = high - low[top, each]
        log_odds[top, each] = -np.inf
        others = np.logaddexp.reduce(log_odds, axis=0)
        return np.minimum(limit, np.exp(others - np.logaddexp(0.0, others)))


def read_softmax(p: TensorVariable) -> TensorVariable | None:
    """Return the predictors (N, K - 1) of a softmax, less the one of class 0; None for other p."""
    eta = _argument(p)
    if eta is None or p.ndim != 2:
        return None
    difference: TensorVariable = eta[:, 1:] - eta[:, 0][:, None]
    return difference


def _argument(p: Any) -> Any:
    """Return the argument of a softmax over the last axis, or of a lookup in one; else None."""
    # Probabilities with a Dirichlet prior are the softmax of their logarithms.
    while p.owner is not None and isinstance(p.owner.op, ViewOp | SpecifyShape):
        p = p.owner.inputs[0]
    op = None if p.owner is None else p.owner.op
    if isinstance(op, SoftmaxOp):
        last = p.ndim - 1, -1
        axis = op.axis[0] if isinstance(op.axis, tuple) and len(op.axis) == 1 else op.axis
        return p.owner.inputs[0] if axis in last else None
    if isinstance(op, DirichletRV):
        return pt.log(p)
    if isinstance(op, AdvancedSubtensor):
        source, *index = p.owner.inputs
        # The lookup takes all of the last axis. A mask may be of several axes.
        masks = any(v.type.dtype == "bool" for v in index)
        eta = None if masks or index_of(p.owner, 1)[-1] != slice(None) else _argument(source)
        return None if eta is None else op(eta, *index)
    return None


def with_reference(arguments: Sequence[TensorVariable]) -> list[Any]:
    """Return the graphs of all classes' predictors."""
    return [pt.zeros_like(arguments[0]), *arguments]


def log_sum_exp(arguments: Sequence[TensorVariable]) -> Any:
    """Return the graph of ``log sum_k exp(arguments[k])``, element by element."""
    largest: Any = arguments[0]
    for eta in arguments[1:]:
        largest = pt.maximum(largest, eta)
    # The value does not depend on what is subtracted: its derivative is zero.
    largest = disconnected_grad(largest)
    total: Any = 0.0
    for eta in arguments:
        total = total + pt.exp(eta - largest)
    # The total is at least one. PyTensor would stabilise pt.log(total) once more, with exponentials
    # that the derivative does not have.
    return largest + pt.log1p(total - 1.0)


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
