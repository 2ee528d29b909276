"""Checks of what user-defined families and bounds declare of themselves."""

from typing import Any

import numpy as np

from pymc_flymc.bounds.all_rows import AllRows
from pymc_flymc.bounds.bound import Bound, Problem
from pymc_flymc.bounds.taylor import Taylor
from pymc_flymc.bounds.taylor_parts import TaylorInParts
from pymc_flymc.bounds.validity import check_bound
from pymc_flymc.errors import UnsupportedModelError
from pymc_flymc.likelihoods.likelihood import Likelihood, SmoothLikelihood
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.order import first_largest
from pymc_flymc.reporting import doing

#: Outcomes of a model on which a bound is checked.
OUTCOMES = 200
#: Predictors at which curvatures are looked at.
PREDICTORS = np.concatenate([np.linspace(-8.0, 8.0, 65), [-30.0, -15.0, 15.0, 30.0]])
#: Curvature that may be rounding, relative to what there is of it.
CURVATURE_ROUNDING = 1e-9


@doing("checking a likelihood or a bound that is not Firefly's own")
def check_declared(problem: Problem, bound: Bound) -> None:
    """Check what a family and a bound that users wrote declare of themselves, for each step.

    What such objects declare may depend on attributes that change, so no result is kept. Families
    and bounds of this package are checked by its tests instead.

    Raises
    ------
    UnsupportedModelError
        If the likelihood is not log-concave though it says so, or if the bound is violated.
    """
    family, likelihood = unweighted(problem.likelihood), problem.likelihood
    if isinstance(bound, AllRows) or (_is_ours(family) and _is_ours(bound)):
        return
    y = _some_outcomes(problem)
    if isinstance(family, SmoothLikelihood) and family.log_concave:
        _check_concave(problem, y)
    # `TaylorInParts` uses the same limits of the family as `Taylor`.
    checked: Any = Taylor() if isinstance(bound, TaylorInParts) else bound
    start = len(problem.own.w) - problem.design.n_nuisances
    try:
        check_bound(checked, likelihood, y, nuisances=tuple(problem.own.w[start:]))
    except AssertionError as error:
        raise UnsupportedModelError(
            f"{error}. {_what_to_change(family, bound)}; see check_bound"
        ) from None


def _some_outcomes(problem: Problem) -> np.ndarray:
    design, y = problem.design, problem.y
    if design.stored is not None:
        y = design.stored.sample(max(1, design.n_rows // OUTCOMES)).y
    rng = np.random.default_rng(0)
    return y[rng.choice(len(y), min(OUTCOMES, len(y)), replace=False)]


def _is_ours(what: object) -> bool:
    return type(what).__module__.partition(".")[0] == __name__.partition(".")[0]


def _check_concave(problem: Problem, y: np.ndarray) -> None:
    """Refuse a family that is not log-concave for some row, and does not say so."""
    k = problem.likelihood.n_predictors
    rng = np.random.default_rng(1)
    eta = np.repeat(PREDICTORS[None], k, axis=0)
    if k > 1:
        eta = rng.permuted(eta, axis=1)
    arguments = np.tile(eta, (1, len(y)))
    rows = np.repeat(y, len(PREDICTORS), axis=0)
    with np.errstate(all="ignore"):
        second = np.moveaxis(problem.derivatives(arguments, rows).second, -1, 0)
    finite = np.isfinite(second).all(axis=(1, 2))
    largest = np.zeros(len(rows))
    largest[finite] = np.linalg.eigvalsh(second[finite])[:, -1]
    size = np.abs(np.where(finite[:, None, None], second, 0.0)).max(axis=(1, 2))
    # Positive curvature this small is rounding.
    worst = first_largest(largest - CURVATURE_ROUNDING * (1.0 + size))
    if largest[worst] > CURVATURE_ROUNDING * (1.0 + size[worst]):
        name = unweighted(problem.likelihood).name
        raise UnsupportedModelError(
            f"the likelihood {name} of {problem.name!r} is not log-concave: its second derivative "
            f"is {largest[worst]:.6g} for y = {rows[worst]} at the predictor "
            f"{arguments[:, worst].tolist()}. Give the family the attribute log_concave = False"
        )


def _what_to_change(family: Likelihood, bound: Bound) -> str:
    if not _is_ours(bound):
        return "Correct the bound: its gap, its statistics (prepare), or collapsed"
    if isinstance(bound, Taylor | TaylorInParts):
        limits = "derivative_bound, growth, third_bound or third_beyond"
        return f"Correct {limits} of the family {family.name}"
    return f"The family {family.name} is not what its attribute form, or tangent or unit, says"
