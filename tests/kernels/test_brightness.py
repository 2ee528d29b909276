"""The set of bright rows, and the terms of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_flymc import Taylor
from pymc_flymc.kernels.brightness import make_bright_set
from pymc_flymc.kernels.layout import POWERS, ROW
from pymc_flymc.kernels.posterior import row_terms
from tests.support.data import logistic_rows
from tests.support.native import brighten, darken, is_bright
from tests.support.patches import no_row_kept_bright
from tests.support.steps import logistic_step


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 19)), max_size=120))
def test_index_of_bright_rows(operations):
    """Brighten and darken in any order: the set, its places and its cached odds stay right."""
    bright, model = make_bright_set(20), {}
    for brightens, k in operations:
        if brightens and not is_bright(bright, k):
            model[k] = 0.5 * k + len(model)
            brighten(bright, k, model[k])
        elif not brightens and model:
            i = k % len(model)
            del model[int(bright.index[i])]
            darken(bright, i)
        n = int(bright.count[0])
        assert n == len(model) == np.count_nonzero(bright.slot)
        assert {
            int(r): o for r, o in zip(bright.index[:n], bright.log_factor[:n], strict=True)
        } == model
        np.testing.assert_array_equal(bright.slot[bright.index[:n]], np.arange(1, n + 1))
        for row in range(20):
            assert is_bright(bright, row) == (row in model)


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
