"""Factors and rates of chosen rows are those of these rows."""

import numpy as np
import pytest

from pymc_flymc import Taylor
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.kernels.posterior import row_terms
from tests.support.data import logistic_rows
from tests.support.patches import no_row_kept_bright
from tests.support.steps import logistic_step


def test_of_some_rows_in_another_order():
    X, y = logistic_rows(50, [-0.5, 1.0])
    with no_row_kept_bright():
        _, step = logistic_step(X, y, bound=Taylor(), kernel="joint")
    target, w = step.target, np.empty(step.target.n_slopes)
    theta = target.geometry.unstandardise(np.array([1.0, -2.0]))
    target.density(theta, target.statistics, w)
    index = np.array([40, 3, 17, 3])
    posterior = target.posterior(target.statistics, target.geometry)
    chain = step.sampler.new_chain()
    factors, rates = row_terms(posterior, w, index, np.zeros(0), chain.scratch)
    constants, expected = target.data.rows.constants[index], np.empty(len(index))
    shared = w[2:]
    (part,) = target.parts
    part.log_factor((X[index] @ w[:2])[:, None], np.ascontiguousarray(constants), shared, expected)
    np.testing.assert_allclose(factors, expected, rtol=1e-12)
    powers = shared[[POWERS.near, POWERS.beyond]]
    assert rates == pytest.approx(constants[:, [ROW.near, ROW.beyond]] @ powers, rel=1e-12)
    assert len(set(rates.tolist())) == 3
