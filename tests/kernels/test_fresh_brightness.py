"""Rows drawn by Poisson counts: alias tables, and the distribution of brightness."""

import numpy as np
import pytest
from scipy import stats

from pymc_flymc.kernels.dark_rates import total_rates
from pymc_flymc.kernels.fresh_brightness import SPARE, AliasTables, alias_table
from pymc_flymc.kernels.layout import Powers
from pymc_flymc.kernels.native import read_only
from pymc_flymc.kernels.rows import Rows
from pymc_flymc.target.data import make_alias_tables
from tests.support.native import draw_bright, sort


@pytest.mark.parametrize("weights", ["uneven", "with zeros", "all zero"])
def test_alias_table_has_the_right_probabilities(weights):
    w = np.random.default_rng(1).exponential(size=400) ** 3
    if weights == "with zeros":
        w[::3] = 0.0
    if weights == "all zero":
        w[:] = 0.0
    threshold, alias = np.empty(len(w)), np.empty(len(w), np.int32)
    alias_table(w, threshold, alias)
    # Probability of each row, from the table: its own threshold and what others leave to it.
    distribution = threshold.copy()
    np.add.at(distribution, alias, 1.0 - threshold)
    expected = w / w.sum() if w.sum() > 0 else np.full(len(w), 1.0 / len(w))
    np.testing.assert_allclose(distribution / len(w), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000])
def test_rows_drawn_are_sorted(n):
    drawn = np.random.default_rng(n).integers(0, 1 + n // 2, n + 4).astype(np.int32)
    expected = drawn.copy()
    expected[2 : 2 + n].sort()
    sort(drawn, 2, 2 + n)
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("power", [0.02, 3.0])
@pytest.mark.parametrize("beyond", [0.0, pytest.param(0.5, marks=pytest.mark.slow), 2.0])
def test_rows_are_bright_with_the_right_probability(power, beyond):
    """Heavy rows, rows drawn by Poisson counts, and (power 3) the visit to all rows.

    Of one power of the radius, and of two.
    """
    rng = np.random.default_rng(2)
    n, draws = 60, 40_000
    near = rng.exponential(size=n) ** 2
    near[:4] = 60.0
    far = rng.exponential(size=n)
    constants = np.column_stack([near, far, np.zeros((n, 2))])
    tables = make_alias_tables(constants, (-np.expm1(-near * 0.02)).astype(np.float32))
    assert len(tables.heavy) == 4
    assert isinstance(tables, AliasTables)
    tables = tables._replace(drawn=np.empty(n + SPARE, np.int32))
    rows = Rows(read_only(np.zeros((n, 1))), read_only(np.empty((0, 1))), 0, read_only(constants))
    rows = rows._replace(totals=read_only(total_rates(rows, len(Powers()))))
    rate = near * power + far * beyond * power
    w = np.array([0.0, *Powers(power, beyond * power)])
    counts, pairs = np.zeros(n), 0
    for _ in range(draws):
        count = draw_bright(rng, tables, rows, w, 1.0)
        members = tables.drawn[:count]
        assert len(set(members.tolist())) == count
        counts[members] += 1
        pairs += count**2
    p = -np.expm1(-rate)
    often = (p * draws > 20) & ((1 - p) * draws > 20)
    score = (counts / draws - p)[often] / np.sqrt(p * (1 - p) / draws)[often]
    assert np.max(np.abs(score)) < stats.norm.isf(1e-5 / len(score))
    np.testing.assert_array_equal(counts[p > 1 - 1e-12], draws)
    # Independence: the variance of the number of bright rows is the sum of the rows' variances.
    variance = pairs / draws - (counts.sum() / draws) ** 2
    assert variance == pytest.approx(np.sum(p * (1 - p)), rel=6 * np.sqrt(2 / draws))


@pytest.mark.parametrize("powers", [(np.nan, 0.0), (0.1, np.nan), (np.nan, np.nan)])
def test_rows_with_a_rate_that_is_nan_are_bright(powers):
    """They are read then, and the weight is NaN. One that has no rate at all is dark."""
    constants = np.full((100, 4), 1e-6)
    constants[7] = 0.0
    tables = make_alias_tables(constants, np.full(100, 1e-6, np.float32))
    tables = tables._replace(drawn=np.empty(100 + SPARE, np.int32))
    rows = Rows(read_only(np.zeros((100, 1))), read_only(np.empty((0, 1))), 0, read_only(constants))
    rows = rows._replace(totals=read_only(total_rates(rows, len(Powers()))))
    w = np.array([0.0, *Powers(*powers)])
    count = draw_bright(np.random.default_rng(1), tables, rows, w, 1.0)
    np.testing.assert_array_equal(tables.drawn[:count], np.delete(np.arange(100), 7))
