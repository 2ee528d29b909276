"""Numerical checks of a bound, and of user-defined families and bounds at their first use."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.bounds import Bound, ExpansionBound, Problem, is_bound, row_factor
from pymc_flymc.bounds.bound import EPSILONS, AllRows, rounding_error
from pymc_flymc.bounds.scaled_taylor import ScaledTaylor, ScaledTaylorInParts
from pymc_flymc.bounds.taylor import Taylor
from pymc_flymc.bounds.taylor_parts import TaylorInParts
from pymc_flymc.errors import UnsupportedModelError, check_object
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.graphs.tools import plain_function
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.likelihoods.likelihood import Likelihood, SmoothLikelihood, is_likelihood, outcome
from pymc_flymc.likelihoods.weighted import unweighted
from pymc_flymc.order import first_largest
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.passes import likelihood_pass
from pymc_flymc.regression.regression import Regression
from pymc_flymc.reporting import doing

#: Distances from the anchor at which bounds are evaluated, in units of the Laplace approximation.
SCALES = (0.0, 0.01, 0.1, 1.0, 1.0, 1.0, 3.0, 10.0, 30.0, 100.0)
#: Lengths of further steps, each in the direction in which the predictors of one row change most.
#: Bounds by a radius are tightest there. The limits of local constants are in this range.
LENGTHS = (0.5, 2.0, 3.0, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0)


def check_bound(
    bound: Bound,
    likelihood: Likelihood,
    y: np.ndarray,
    *,
    nuisances: tuple[float, ...] = (),
    seed: int = 0,
) -> None:
    """Look for places where a bound is violated, or its collapsed sum is wrong.

    A regression with three coefficients for each predictor is simulated around the given outcomes,
    the bound is prepared for it, and evaluated at random coefficients and nuisance parameters from
    the anchor to far beyond any posterior draw.

    Parameters
    ----------
    bound : Bound
    likelihood : Likelihood
    y : ndarray, shape (N,), or (N, 1 + R) with R columns of row data
        Outcomes that cover what the likelihood allows.
    nuisances : tuple of float
        Nuisance parameters at the anchor, on the unconstrained scale.
    seed : int

    Raises
    ------
    ValueError
        If the bound does not support the likelihood, or if either is not an object of its kind.
    AssertionError
        If log L - log B is negative or NaN somewhere, if an expansion's remainder exceeds its rate,
        or if the sum over the rows differs from the collapsed sum by more than rounding. The
        message says for which row and where.
    """
    check_object("bound", bound, is_bound, "a bound, such as Taylor()")
    check_object("likelihood", likelihood, is_likelihood, "one, such as BernoulliLogit()")
    if not bound.supports(likelihood):
        raise ValueError(f"{bound.name} does not support {likelihood.name} likelihoods")
    y, rng = np.asarray(y), np.random.default_rng(seed)
    n, k = len(y), likelihood.n_predictors
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    design = Design(X, np.empty((0, k)), False, len(nuisances))
    w = np.concatenate([rng.normal(size=3 * k), nuisances])
    regression = Regression("y", design, y, likelihood)
    expansion = likelihood_pass(design, y, regression.derivatives, w)
    information = expansion.information.concave().array
    factor = np.linalg.inv(np.linalg.cholesky(information + np.eye(len(w)))).T
    geometry = dense_geometry(w, np.linalg.cholesky(factor @ factor.T))
    anchor = Anchor(geometry, (AnchorPart(factor, expansion),), 1.0)
    (problem,) = Problem.of([regression], anchor)
    prepared = bound.prepare(problem, compile_log_factor(row_factor(likelihood, bound)))
    evaluate = _evaluator(bound, likelihood, len(w))
    steps = [scale * rng.standard_normal(len(w)) for scale in SCALES]
    for length in LENGTHS:
        gradient = np.zeros(len(w))
        gradient[: 3 * k] = np.outer(rng.standard_normal(k), X[rng.integers(n)]).ravel()
        along = factor.T @ gradient
        steps.append(length * along / np.linalg.norm(along))
    for step in steps:
        w_new, distance = w + factor @ step, float(np.linalg.norm(step))
        arguments = [*design.predictor(w_new).T, *(np.full(n, v) for v in w_new[3 * k :])]
        of_rows = y, prepared.constants, *arguments
        log_l, gap, above, total, allowed = evaluate(w_new, prepared.statistics, *of_rows)
        size = 1.0 + np.abs(log_l) + np.abs(gap) + sum(np.abs(a) + a**2 for a in arguments)
        rounding = EPSILONS * np.finfo(float).eps * size
        bad = np.flatnonzero(~(gap >= -allowed))  # as in a chain
        if bad.size:
            i = bad[np.argmin(np.nan_to_num(gap[bad], nan=-np.inf))]
            raise AssertionError(
                f"{bound.name} is no lower bound on {likelihood.name}: log L - log B is "
                f"{gap[i]:.6g} for y = {y[i]} at arguments {[float(a[i]) for a in arguments]}, "
                f"{distance:.3g} Laplace sds from the anchor"
            )
        # The rate of an expansion limits the remainder from above, too: brightness is drawn by it.
        exceeds = np.flatnonzero(isinstance(bound, ExpansionBound) & (2.0 * above > gap + allowed))
        if len(exceeds):
            i = exceeds[0]
            raise AssertionError(
                f"the rate of {bound.name} on {likelihood.name} is {gap[i] - above[i]:.6g}, less "
                f"than the remainder of its expansion, {above[i]:.6g}, for y = {y[i]}, "
                f"{distance:.3g} Laplace sds from the anchor"
            )
        by_row = float(np.sum(log_l - above))
        # So far out that both are minus infinity, they are equal.
        close = abs(total - by_row) <= float(np.sum(rounding)) + 1e-10 * abs(by_row)
        if not (close or total == by_row):
            raise AssertionError(
                f"the collapsed sum of {bound.name} is {total:.12g}, the sum over rows "
                f"{by_row:.12g}, {distance:.3g} Laplace sds from the anchor"
            )


def _evaluator(bound: Bound, likelihood: Likelihood, n_coefficients: int) -> Any:
    """Compile log-likelihoods, gaps and their rounding of all rows, and the collapsed sum."""
    w, statistics = pt.dvector("w"), pt.dvector("statistics")
    y = [pt.dvector(name) for name in ("y", *likelihood.row_data)]
    constants = pt.dmatrix("constants")
    n_arguments = likelihood.n_predictors + len(likelihood.nuisances)
    arguments = [pt.dvector(f"argument_{i}") for i in range(n_arguments)]
    total, shared = bound.collapsed(likelihood, w, statistics, n_coefficients)
    apart = [shared[i] for i in range(bound.n_shared)]
    gap = bound.gap(likelihood, arguments, constants, apart)
    log_l = likelihood.log_likelihood(arguments, outcome(likelihood, y))
    above = gap
    if isinstance(bound, ExpansionBound):  # what is collapsed is the sum of expansions
        above = bound.remainder(likelihood, arguments, constants)
    outputs = [log_l, gap, above, total, rounding_error(gap)]
    function = plain_function([w, statistics, *y, constants, *arguments], outputs)

    def evaluate(w: Any, statistics: Any, y: Any, *rest: Any) -> tuple[Any, ...]:
        columns = np.atleast_2d(y.T).astype(np.float64)
        *of_rows, total, rounding = function(w, statistics, *columns, *rest)
        return *of_rows, float(total), np.where(np.isnan(rounding), 0.0, rounding)

    return evaluate


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

    Raises UnsupportedModelError if the likelihood is not log-concave though it says so, or if the
    bound is violated.
    """
    family, likelihood = unweighted(problem.likelihood), problem.likelihood
    if isinstance(bound, AllRows) or (_is_ours(family) and _is_ours(bound)):
        return
    y = _some_outcomes(problem)
    if isinstance(family, SmoothLikelihood) and family.log_concave:
        _check_concave(problem, y)
    # Bounds in parts use the same limits of the family.
    checked: Any = bound
    if isinstance(bound, TaylorInParts | ScaledTaylorInParts):
        checked = Taylor() if isinstance(bound, TaylorInParts) else ScaledTaylor()
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
