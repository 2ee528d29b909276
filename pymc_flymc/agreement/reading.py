"""What was read of a model, evaluated at some points: the rest, coefficients, and rows."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt

from pymc_flymc.agreement.rounding import RoundedFunction, rounded_function
from pymc_flymc.likelihoods.likelihood import Likelihood, outcome
from pymc_flymc.reading.flat import DensityGraph
from pymc_flymc.regression.design import Design

EPSILON = float(np.finfo(np.float64).eps)
#: Coefficients of a likelihood at some points; None where they are not known.
Coefficients = list[np.ndarray | None]


def of_reading(
    graph: DensityGraph, flat: Sequence[tuple[np.ndarray, np.ndarray]], seed: int = 0
) -> tuple[np.ndarray, list[Coefficients]]:
    """Return the density without rows at flat points, shape (T, 1), and all coefficients."""
    function = rounded_function([graph.theta, graph.others], [graph.prior, *graph.coefficients])
    found = [function(*each, seed=seed) for each in flat]
    rest = [np.nan if each is None else float(each[0]) for each in found]
    ws = [
        [None if each is None else each[1 + i] for each in found] for i in range(len(graph.sizes))
    ]
    return np.array(rest)[:, None], ws


def function_of(likelihood: Likelihood) -> RoundedFunction:
    """Return the log-likelihoods of rows as a function of their arguments and observed values."""
    n_arguments = likelihood.n_predictors + len(likelihood.nuisances)
    arguments = [pt.dvector(f"argument_{i}") for i in range(n_arguments)]
    columns = [pt.dvector(name) for name in ("y", *likelihood.row_data)]
    log_l = likelihood.log_likelihood(arguments, outcome(likelihood, columns))
    return rounded_function([*arguments, *columns], [log_l])


def of_regression(
    likelihood: Likelihood, design: Design, y: np.ndarray, coefficients: Coefficients, seed: int = 0
) -> np.ndarray:
    """Return the log-likelihoods of a regression's rows at some coefficients, shape (T, n)."""
    function, rng = function_of(likelihood), np.random.default_rng(seed)
    observed = np.atleast_2d(y.T).astype(np.float64)
    out = np.full((len(coefficients), len(y)), np.nan)
    for t, w in enumerate(coefficients):
        if w is None:
            continue
        eta, sizes = (each[:, 0].T for each in design.predictors(w[None]))
        if seed:  # terms of a predictor may cancel
            eta = eta + EPSILON * sizes * rng.uniform(-1.0, 1.0, eta.shape)
        nuisances = np.repeat(w[len(w) - design.n_nuisances :, None], len(y), axis=1)
        found = function(*eta, *nuisances, *observed, seed=seed)
        out[t] = np.nan if found is None else found[0]
    return out
