"""No bound: the factor of a row is its likelihood, of all that the row has."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_flymc.bounds import AllRows, Problem
from pymc_flymc.likelihoods import BernoulliLogit, BinomialLogit
from pymc_flymc.regression.design import Design

Y = np.array([[2, 5], [0, 1], [7, 7]])


def test_factors_are_likelihoods_and_all_rows_are_bright():
    bound, family = AllRows(), BinomialLogit()
    design = Design(np.ones((3, 1)), np.empty((0, 1)), False)
    problem = Problem("y", design, Y, family, None, None)
    prepared = bound.prepare(problem, None)
    assert prepared.constants.shape == (3, bound.n_constants(family)) == (3, 2)
    assert bound.expected_rows(problem, 2) == prepared.bright.sum() == 3.0
    eta = np.array([0.3, -1.0, 2.0])
    graph = bound.gap(family, [pt.constant(eta)], pt.constant(prepared.constants), [])
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    found = pytensor.function([], graph, mode=mode)()
    p = 1.0 / (1.0 + np.exp(-eta))
    expected = stats.binom.logpmf(Y[:, 0], Y[:, 1], p)
    # But for what parameters do not change.
    assert found - expected == pytest.approx(family_constant(Y), abs=1e-12)
    assert bound.n_constants(BernoulliLogit()) == 1


def family_constant(y):
    return stats.binom.logpmf(y[:, 0], y[:, 1], 0.5) * -1.0 - y[:, 1] * np.log(2.0)
