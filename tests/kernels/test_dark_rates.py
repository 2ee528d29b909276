"""Rates of rows, and their sum over the dark ones, where numbers differ by many orders."""

import numpy as np
import pymc as pm
import pytest
from pymc.math import exp
from scipy.sparse import csr_array

from pymc_flymc import FireflyHMC, FireflyMH, Taylor
from pymc_flymc.bounds import TaylorInParts
from pymc_flymc.kernels.brightness import make_bright_set
from pymc_flymc.kernels.dark_rates import dark_rate
from pymc_flymc.kernels.layout import PARTS_ROW, ROW
from pymc_flymc.kernels.posterior import make_chain
from pymc_flymc.regression.design import Design, SparseColumns
from pymc_flymc.target.data import make_rows
from tests.support.native import brighten, from_python, rate_at, take_dark
from tests.support.patches import no_row_kept_bright
from tests.support.tails import log_density_of

N, Q = 40, 3
#: The second of two categories has no counts.
COUNTS = np.array([2, 0, 7, 1, 4, 1, 3, 0, 0, 0])
CATEGORY = np.column_stack([np.arange(10) < 7, np.arange(10) >= 7]).astype(float)
dark_rate = from_python(dark_rate)


def rows_in_parts(rng, numbers, k=1):
    """Rows with two effects each on K predictors, and what each multiplies, (N, 2 + 2 K Q)."""
    columns = np.stack([rng.permutation(Q)[:2] for _ in range(N)])
    sizes = rng.normal(size=(N, 2))
    sparse = csr_array((sizes.ravel(), columns.ravel(), 2 * np.arange(N + 1)), shape=(N, Q))
    columns = SparseColumns.of_matrix(sparse)
    design = Design(np.zeros((N, 1)), np.empty((0, k)), False, 0, columns)
    weights = np.column_stack([np.ones(N), rng.exponential(size=(N, k - 1))])
    constants = np.zeros((N, PARTS_ROW.row_data(k) + k - 1))
    constants[:, PARTS_ROW.row_data(k) :] = weights[:, 1:]
    constants[:, PARTS_ROW.near], constants[:, PARTS_ROW.beyond] = numbers.T
    constants[:, PARTS_ROW.half_width] = rng.exponential(size=N)
    sizes = [abs(sparse.toarray()) * weight[:, None] for weight in weights.T]
    spread = np.column_stack([constants[:, PARTS_ROW.half_width], *sizes])
    near, beyond = (number[:, None] * spread for number in numbers.T)
    expected = np.column_stack([near[:, 0], beyond[:, 0], near[:, 1:], beyond[:, 1:]])
    return make_rows(design, constants, TaylorInParts(Q, k)), expected


def rows_of_two_predictors(rng, numbers):
    return rows_in_parts(rng, numbers, 2)


def rows_of_one_radius(rng, numbers):
    design = Design(np.zeros((N, 1)), np.empty((0, 1)), False)
    constants = np.zeros((N, ROW.anchor + 1))
    constants[:, ROW.near], constants[:, ROW.beyond] = numbers.T
    return make_rows(design, constants, Taylor()), numbers


@pytest.mark.parametrize("make", [rows_of_one_radius, rows_in_parts, rows_of_two_predictors])
@pytest.mark.parametrize("orders", [0.0, 15.0])
def test_sums_over_the_dark_rows(make, orders):
    """Right to the last digits, however much larger the bright rows' rates are."""
    rng = np.random.default_rng(0)
    numbers = rng.uniform(1.0, 2.0, (N, 2))
    bright_rows = rng.permutation(N)[: N // 2]
    numbers[bright_rows] *= 10.0**orders
    rows, each = make(rng, numbers)
    n_powers = each.shape[1]
    width = rows.offset.shape[1] * (rows.X.shape[1] + rows.n_sparse)
    chain, bright = make_chain(1, width + n_powers, N), make_bright_set(N)
    powers = chain.w[-n_powers:] = rng.uniform(0.0, 2.0, n_powers)
    is_dark = np.ones(N, bool)
    for n in bright_rows:
        brighten(bright, n, 0.0)
        is_dark[n] = False
    take_dark(rows, bright, chain)
    # Sums of N positive numbers here, and of some powers of each.
    rounding = N * n_powers * np.finfo(float).eps
    np.testing.assert_allclose(chain.dark[-n_powers:], each[is_dark].sum(axis=0), rtol=rounding)
    of_rows = [rate_at(rows, chain.w, n) for n in range(N)]
    np.testing.assert_allclose(of_rows, each @ powers, rtol=rounding)
    expected = np.sum(each[is_dark] @ powers)
    assert dark_rate(chain.dark, chain.w) == pytest.approx(expected, rel=rounding)
    for n in np.flatnonzero(is_dark):
        brighten(bright, n, 0.0)
    chain.w[-n_powers:] = np.inf
    take_dark(rows, bright, chain)
    assert not chain.dark.any() and dark_rate(chain.dark, chain.w) == 0.0


@pytest.mark.parametrize("settings", [{}, {"kernel": "metropolis"}, {"kernel": "joint"}])
def test_density_where_rates_are_beyond_all_digits(settings):
    """Of a category without counts, under a wide prior: all rows bright, it is the posterior's."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 30.0, shape=2)
        pm.Poisson("y", mu=exp(CATEGORY @ b), observed=COUNTS)
        with no_row_kept_bright():
            step = (FireflyMH if settings else FireflyHMC)(bound=Taylor(), **settings)
    rng, log_density = np.random.default_rng(0), log_density_of(model)
    differences, sizes = [], []
    step.setup_chain(rng, 0, 1)
    chain = step.chain
    for far in (-60.0, -75.0, -90.0):
        theta = np.array([0.9, far])
        chain.start_at(rng, theta)
        assert chain.n_bright == len(COUNTS)
        rate = step.target.data.rows.constants[:, : ROW.outcome] @ chain.state.w[2:]
        assert rate.sum() > 1e16  # no digit would be left beside it
        terms = [chain.state.log_density[0], *chain.bright.log_factor[: len(COUNTS)]]
        differences.append(sum(terms) - log_density(theta[None])[0])
        sizes.append(np.abs(terms).sum())
    # Expansions of the size of these terms are added and subtracted, with a few operations each.
    assert np.ptp(differences) < 8 * np.finfo(float).eps * max(sizes)


@pytest.mark.slow
def test_default_where_proposals_do_not_reach_the_tails():
    """However few rows there are, proposals are not taken whose weights have heavy tails.

    Of a design in single precision, as of columns that are zero or one: the kernel is another one.
    """
    with pm.Model():
        b = pm.Normal("b", 0.0, 30.0, shape=2)
        pm.Poisson("y", mu=exp(CATEGORY.astype(bool) @ b), observed=COUNTS)
        target = FireflyMH().target
    # Trajectories reach them, with those rows in the density that they are simulated on.
    assert target.spec.name == "surrogate"
    assert len(target.data.exact.X) == CATEGORY[:, 1].sum()
    assert target.data.exact.X.dtype == np.float32
