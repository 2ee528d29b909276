"""How many rows bounds expect to be bright, and how many are: by it they are chosen."""

import numpy as np
import pytest

from pymc_flymc import FreeJaakkolaJordan, JaakkolaJordan, Tangent
from pymc_flymc.anchor.anchor import Anchor, AnchorPart
from pymc_flymc.bounds import Bohning, Problem, row_factor
from pymc_flymc.graphs.compilation import compile_log_factor
from pymc_flymc.kernels.geometry import dense_geometry
from pymc_flymc.likelihoods import (
    BernoulliLogit,
    BinomialLogit,
    NegativeBinomialFree,
    Softmax,
    StudentT,
)
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.passes import likelihood_pass
from pymc_flymc.regression.regression import Regression

N = 2000
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 2))])
ETA = X @ [0.2, 0.6, -0.4]
TRIALS = RNG.integers(1, 9, N)
P = 1.0 / (1.0 + np.exp(-ETA))
BINARY = (RNG.random(N) < P).astype(int)
COUNTS = np.column_stack([RNG.binomial(TRIALS, P), TRIALS])
DISPERSED = RNG.negative_binomial(2.0, 2.0 / (2.0 + np.exp(ETA)))
REAL = ETA + 0.7 * RNG.standard_t(4, N)
CLASSES = RNG.integers(0, 3, N)
#: A bound, a family, outcomes, and coefficients with nuisance parameters near the mode.
CASES = {
    "logistic": (JaakkolaJordan, BernoulliLogit(), BINARY, [0.2, 0.6, -0.4]),
    "binomial": (JaakkolaJordan, BinomialLogit(), COUNTS, [0.2, 0.6, -0.4]),
    "counts": (FreeJaakkolaJordan, NegativeBinomialFree(), DISPERSED, [0.2, 0.6, -0.4, 0.7]),
    "robust": (Tangent, StudentT(), REAL, [0.2, 0.6, -0.4, 1.4, -0.36]),
    "classes": (Bohning, Softmax(n_predictors=2), CLASSES, [0.0] * 6),
}


@pytest.mark.parametrize("slack", [0.0, 2.0])
@pytest.mark.parametrize("case", CASES)
def test_as_many_are_bright_as_expected(case, slack):
    """Over draws from the Laplace approximation, in which gaps are about quadratic."""
    kind, likelihood, y, w = CASES[case]
    bound, k, w = kind(slack=slack), likelihood.n_predictors, np.array(w)
    n_nuisances = len(w) - 3 * k
    design = Design(X, np.empty((0, k)), False, n_nuisances)
    regression = Regression("y", design, y, likelihood)
    expansion = likelihood_pass(design, y, regression.derivatives, w)
    information = expansion.information.concave().array + np.eye(len(w))
    factor = np.linalg.inv(np.linalg.cholesky(information)).T
    geometry = dense_geometry(w, np.linalg.cholesky(factor @ factor.T))
    (problem,) = Problem.of([regression], Anchor(geometry, (AnchorPart(factor, expansion),), 1.0))
    log_factor = compile_log_factor(row_factor(likelihood, bound))
    prepared = bound.prepare(problem, log_factor)
    found, odds = [], np.empty(N)
    for _ in range(400):
        new = w + factor @ RNG.standard_normal(len(w))
        log_factor(design.predictor(new), prepared.constants, new[3 * k :], odds)
        found.append(np.sum(1.0 / (1.0 + np.exp(-odds))))
    error = np.std(found) / np.sqrt(len(found))
    # Beside the Monte Carlo error that of gaps which are not quadratic.
    expected = np.mean(found), 0.1 * np.mean(found) + 4.0 * error
    assert abs(prepared.bright.sum() - expected[0]) < expected[1]
    assert abs(bound.expected_rows(problem, 1) - expected[0]) < 1.5 * expected[1]


@pytest.mark.parametrize("kind", [JaakkolaJordan, FreeJaakkolaJordan, Tangent, Bohning])
def test_slack_is_what_was_asked_for(kind):
    assert kind(slack=0.3).slack == 0.3
