"""Brightness of many proposals at a time."""

import numpy as np
import pytest
from scipy import stats

from pymc_flymc.kernels.layout import Powers
from pymc_flymc.kernels.native import address_of_generator
from pymc_flymc.out_of_core import proposals


def drawn_rows(tables, powers, beyond=0.0, room=2, seed=1):
    """Number of draws of each row, and the proposals' numbers of rows."""
    n = len(tables.near)
    shared = np.column_stack(Powers(powers, beyond * np.array(powers)))
    ends, drawn = np.zeros(len(powers), np.int64), np.empty(room * n, np.int32)
    rng, total, sizes, start = np.random.default_rng(seed), np.zeros(n, int), [], 0
    while start < len(powers):
        stop = proposals.draw_rows(address_of_generator(rng), tables, shared, start, ends, drawn)
        assert stop > start
        for rows in np.split(drawn[: ends[stop - 1]], ends[start : stop - 1]):
            assert np.all(np.diff(rows) > 0)
            total[rows] += 1
            sizes.append(len(rows))
        start = stop
    return total, np.array(sizes)


@pytest.mark.parametrize("beyond", [0.0, 0.7])
@pytest.mark.parametrize("power", [1.0, 60.0, 3000.0])  # few drawn; many twice; all rows visited
def test_rows_are_bright_with_their_probabilities(power, beyond):
    rng = np.random.default_rng(0)
    rates = (1e-3 * rng.exponential(size=700)).astype(np.float32)
    rates[::9] = 0.0
    others = rates[rng.permutation(700)]
    others[::9] = 0.0
    tables = proposals.make_tables(rates, others)
    k = 20_000 if power < 100 else 2000
    counts, sizes = drawn_rows(tables, np.full(k, power), beyond)
    p = -np.expm1(-power * (rates.astype(float) + beyond * others))
    assert not counts[::9].any()
    seen = p > 0
    expected = k * p[seen]
    enough = (expected > 5) & (k - expected > 5)
    chi2 = np.sum((counts[seen] - expected)[enough] ** 2 / (expected * (1 - p[seen]))[enough])
    assert stats.chi2.sf(chi2, enough.sum()) > 1e-4
    # Independent rows: the variance of their number is the sum of those of the rows.
    spread = sizes.var() / np.sum(p * (1 - p))
    assert abs(spread - 1.0) < 5.0 * np.sqrt(2.0 / k) + 3.0 / np.sqrt(k * np.sum(p))


def test_rooms_of_any_size_hold_the_same_distribution():
    tables = proposals.make_tables(np.full(300, 2e-4, np.float32), np.zeros(300, np.float32))
    powers = np.tile([0.0, 100.0, 1.0, 500.0], 50)
    found = [drawn_rows(tables, powers, room=room) for room in (2, 100)]
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not found[0][1][::4].any()


@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning")
def test_a_row_alone_and_no_density():
    one = proposals.make_tables(np.array([5.0], np.float32), np.array([5.0], np.float32))
    counts, sizes = drawn_rows(one, np.array([1e9, np.nan, np.inf]))
    assert counts[0] == 1 and list(sizes) == [1, 0, 0]


def test_compiled_tables_fit_rows_in_groups():
    rates = np.arange(1000, dtype=np.float32)
    tables = proposals.make_tables(rates, rates)
    assert tables.near_sums[-1] == rates.sum(dtype=float)
    for n, place in ((1, 0.5), (1, 1.0 - 1e-9), (2, 1.0), (999, rates.sum() - 0.5)):
        assert proposals.find_row.py_func(tables.near, tables.near_sums, place) == n


@pytest.mark.parametrize("place", [0.0, 0.3, 1.0, 1.5])
def test_only_rows_with_rates_are_found(place):
    """Also if a place is the total or beyond it, by rounding, and the last groups have no rates."""
    rates = np.zeros(5 * proposals.GROUP, np.float32)
    rates[3], rates[-2 * proposals.GROUP - 1] = 0.25, 0.75
    tables = proposals.make_tables(rates, rates)
    found = proposals.find_row.py_func(tables.near, tables.near_sums, place)
    assert found == (3 if place < 0.25 else 3 * proposals.GROUP - 1)
