"""The index of bright rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_flymc.kernels.brightness import make_bright_set
from tests.support.native import brighten, darken, is_bright


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
