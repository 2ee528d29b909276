"""Checks of observed values and parameters, and messages for models that are refused."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from pymc.model.core import Model
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as ps
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import printed_name
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.graphs.tools import evaluate, free_inputs
from pymc_flymc.likelihoods.products import without


def is_positive(values: np.ndarray) -> np.ndarray:
    """Return which values are positive and finite; complex ones are not."""
    return np.isfinite(values) & (values.imag == 0) & (values.real > 0)


def is_zero_or_more(values: np.ndarray) -> np.ndarray:
    """Return which values are finite, and not negative."""
    return np.isfinite(values) & (values >= 0)


def check_parameter(
    parameter: TensorVariable,
    what: str,
    rv: TensorVariable,
    expected: str = "positive and finite",
    good: Callable[[np.ndarray], np.ndarray] = is_positive,
) -> None:
    """Refuse a parameter with impossible values, if it is given as numbers of any shape."""
    if free_inputs([parameter]):
        return
    values = np.ravel(evaluate(parameter))
    bad = np.flatnonzero(~good(values))
    if bad.size:
        row = f" in row {bad[0]}" if values.size > 1 else ""
        raise ValueError(
            f"{what} of the observed variable {rv.name!r} is {values[bad[0]]}{row}; it must be "
            f"{expected}"
        )


def one_for_all_rows(parameter: Any, what: str, rv: TensorVariable) -> Any:
    """Return a parameter that is the same for all rows as a scalar; refuse any other."""
    if not all(parameter.type.broadcastable):
        raise UnsupportedModelError(
            f"{what} of the observed variable {rv.name!r} has a value for each row; Firefly needs "
            f"one for all rows: a scalar {what}"
        )
    return parameter.squeeze() if parameter.ndim else parameter


def scalar_parameter(
    parameter: Any, what: str, rv: TensorVariable, expected: str = "positive and finite"
) -> Any:
    """Return a positive parameter that is the same for all rows as a scalar; refuse any other."""
    parameter = one_for_all_rows(parameter, what, rv)
    check_parameter(parameter, what, rv, expected)
    return parameter


def known_number(parameter: Any, what: str, rv: TensorVariable, instead: str) -> float:
    """Return a positive constant that all rows share as a number; else refuse it with `instead`."""
    parameter = scalar_parameter(parameter, what, rv)
    if free_inputs([parameter]):
        raise UnsupportedModelError(f"{what} of the observed variable {rv.name!r} is free{instead}")
    return float(evaluate(parameter))


def check_values(good: np.ndarray, values: np.ndarray, name: str, expected: str) -> None:
    """Refuse observed values that are not good: the message counts them and names the first."""
    bad = np.flatnonzero(~good)
    if bad.size:
        raise ValueError(
            f"{name} has {bad.size} values that are not {expected}, first in row {bad[0]}: "
            f"{values[bad[0]]}; correct or drop these rows"
        )


def check_counts(values: np.ndarray, name: str) -> np.ndarray:
    """Return observed counts as float64; refuse other values, NaN included."""
    values = np.asarray(values, dtype=np.float64)
    whole = (values >= 0) & (values == np.floor(values)) & (values < np.inf)
    check_values(whole, values, name, "counts")
    return values


_POSITIVE = "pm.LogNormal, pm.Gamma with a log link, or pm.StudentT for np.log(y)"
_OUTCOMES = (
    "pm.StudentT or pm.Normal of a table of outcomes, with effects of its rows that they share"
)
_LAGGED = (
    "pm.Normal(mu=alpha + lagged @ rho, sigma=sigma) for y[k:], given the first k values: the "
    "columns of lagged are earlier values"
)

LEAVE_OUT = "Leave out step=, and PyMC samples the model as it is, with its own rows."
#: The same, after a suggestion what to write.
OTHERWISE = (
    "If that is another model than yours, leave out step=, and PyMC samples it as it is, with its "
    "own rows."
)
#: What to write instead of a vector of outcomes with a covariance: most often a process is meant.
_PROCESS = (
    "pm.gp.HSGP(...).prior(...) as a term of eta, with outcomes that are independent given it"
)
#: The nearest supported alternative, by words of `distribution_name`.
ALTERNATIVES = {
    "minibatch": "the variable without total_size= and pm.Minibatch, with all rows: Firefly reads "
    "few of them anyway",
    "dims": "the distribution of the same name in pm, with plain tensors",
    "InverseGamma": _POSITIVE,
    "Wald": _POSITIVE,
    "Mixture": "pm.StudentT or pm.Cauchy, if the mixture is there for outliers",
    "NormalMixture": "pm.StudentT or pm.Cauchy, if the mixture is there for outliers",
    "Censored": "pm.Censored of pm.Normal.dist, or for durations of pm.LogNormal.dist, "
    "pm.Weibull.dist or pm.Exponential.dist",
    "Truncated": "the distribution without pm.Truncated, if next to nothing is cut off; pm.Normal "
    "may have one limit, counts of pm.Poisson.dist and pm.NegativeBinomial.dist lower=1",
    "Gumbel": "pm.Weibull(1 / beta, pm.math.exp(-mu)) for np.exp(-y), the same model; or "
    "pm.Logistic",
    "AR": _LAGGED,
    "LogitNormal": "pm.Normal for np.log(y / (1 - y)), the same model; or pm.Beta",
    "MvNormal": _OUTCOMES,
    "MvStudentT": _OUTCOMES,
    "CustomDist": "a family of your own",
    "HalfNormal": "pm.Gamma(0.5, 0.5 / sigma**2) for y**2, the same model, with "
    "sigma=pm.math.exp(eta)",
    "Pareto": "pm.Exponential(alpha) for np.log(y / m), the same model, with "
    "alpha=pm.math.exp(eta)",
    "ExGaussian": "pm.SkewNormal, or pm.LogNormal of times",
    "RandomWalk": "pm.Normal for np.diff(y), the same model given the first value",
    "Kumaraswamy": "pm.Beta",
    "DiscreteWeibull": "pm.NegativeBinomial, or pm.Geometric",
    "DirichletMultinomial": "pm.Multinomial(n=n, p=pm.math.softmax(eta, axis=-1)), if rows vary no "
    "more than trials do; if they do, pm.BetaBinomial of one class against all others",
}


def nothing_supported(model: Model) -> str:
    """Return the message for a model without an observed variable of a supported family."""
    names = {str(rv.name): distribution_name(rv) for rv in model.observed_RVs}
    listed = ", ".join(f"{name!r} is {what}" for name, what in names.items())
    listed = listed or "nothing is observed"
    lines = [f"the model has no observed variable that Firefly supports: {listed}. {LEAVE_OUT}"]
    instead = {what: _instead(rv, what) for rv, what in zip(model.observed_RVs, names.values())}
    lines += [f"Instead of {what}: {nearest}" for what, nearest in instead.items() if nearest]
    if not names and model.potentials:
        potentials = [str(v.name) for v in model.potentials]
        lines.append(
            f"The rows of potentials ({potentials}) cannot be told apart: write the likelihood as "
            'an observed variable. Weights are those of pymc_flymc.weighted("y", '
            "pm.Bernoulli.dist(logit_p=eta), weights, observed=y)"
        )
    lines.append(
        'What is supported: "Likelihoods" (docs/likelihoods.md). Another family can be added: '
        '"Your own likelihood" (docs/own_likelihood.md)'
    )
    return "\n".join(lines)


def _instead(rv: TensorVariable, what: str) -> str | None:
    """Return the supported distribution nearest to an observed variable's, if there is one."""
    if rv.ndim == 1 and what in ("pm.MvNormal", "pm.MvStudentT"):
        return _PROCESS
    return next((ALTERNATIVES[w] for w in re.findall(r"\w+", what) if w in ALTERNATIVES), None)


def distribution_name(rv: TensorVariable) -> str:
    """Return what a user wrote to make a random variable, such as "pm.ZeroInflatedPoisson"."""
    from pytensor.xtensor.vectorization import XRV  # slow to import

    op = rv.owner.op
    if isinstance(op, XRV):
        return f"pymc.dims.{type(op.core_op).__name__.removesuffix('RV')}"
    kind = type(op).__name__.removesuffix("RV").lstrip("_")
    printed = printed_name(op) or kind
    if kind == "MinibatchRandomVariable":
        return f"a minibatch (total_size=) of {distribution_name(rv.owner.inputs[0])}"
    if kind == "Censored":
        return f"pm.Censored({distribution_name(rv.owner.inputs[0])})"
    if kind == "Truncated":
        return f"pm.Truncated(pm.{printed.removeprefix(kind)})"
    if kind in ("Mixture", "Hurdle"):
        return _mixture_name(rv, kind)
    if kind.startswith("CustomDist_"):  # without a class_name
        return "pm.CustomDist"
    if ordered := is_ordered(rv):
        return f"pm.{ordered}"
    # Some classes have other names than PyMC exports: WeibullBeta is pm.Weibull.
    for name in (kind, printed):
        if hasattr(pm, name):
            return f"pm.{name}"
    return str(kind)


def _mixture_name(rv: TensorVariable, kind: str) -> str:
    """Return a mixture's name after its components: zeros and another distribution, or several."""
    _, *components = [v for v in rv.owner.inputs if isinstance(v, TensorVariable)]  # _: weights
    components = [v for v in components if v.owner is not None]
    names = [distribution_name(v) for v in components if printed_name(v.owner.op)]
    if len(names) == 2 and names[0] == "pm.DiracDelta":
        prefix = "ZeroInflated" if kind == "Mixture" else kind
        base = names[1].removeprefix("pm.Truncated(").removesuffix(")").removeprefix("pm.")
        return f"pm.{prefix}{base}"
    return "pm.NormalMixture" if names == ["pm.Normal"] else f"pm.{kind}"


def is_ordered(rv: TensorVariable) -> str | None:
    """Return which ordered distribution a ``pm.Categorical`` variable was written as, or None."""
    if not isinstance(rv.owner.op, CategoricalRV):
        return None
    (p,) = rv.owner.op.dist_params(rv.owner)
    p = without(p, ViewOp)  # inside a Deterministic
    if p.owner is None or not isinstance(p.owner.op, Elemwise):
        return None
    kind, inputs = type(p.owner.op.scalar_op), p.owner.inputs
    whole = {_joined(v) for v in inputs}
    if kind is ps.Sub and len(whole) == 1 and None not in whole:
        return "OrderedLogistic"
    # Its first and last probabilities are the tails.
    if kind is ps.Exp and inputs[0].owner is not None and isinstance(inputs[0].owner.op, Join):
        return "OrderedProbit"
    return None


def _joined(v: Variable) -> Variable | None:
    """Return the joined terms of which a variable is a part, or None."""
    if v.owner is None or not isinstance(v.owner.op, Subtensor):
        return None
    whole = v.owner.inputs[0]
    return whole if whole.owner is not None and isinstance(whole.owner.op, Join) else None
