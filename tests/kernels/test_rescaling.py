"""Moves of scales: what effects are around, and ridges of products, on which no row is read."""

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, JaakkolaJordan
from pymc_flymc.kernels.shared_scales import CENTRED, NON_CENTRED, Locations, SharedScales
from tests.support.data import logistic_rows
from tests.support.native import (
    accept_conditional_update,
    density_and_gradient,
    location_of,
    log_ratio_at,
    standardise,
    take_dark,
)


@pytest.fixture(scope="module")
def chain():
    """One of a model with tau * z, which has started."""
    X, y = logistic_rows(200, 2)
    with pm.Model() as model:
        z = pm.Normal("z", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ (pm.HalfNormal("tau", 1.0) * z), observed=y)
        step = FireflyHMC(bound=JaakkolaJordan())
    step.setup_chain(np.random.default_rng(4), 0, 1)
    point, _ = step.step(model.initial_point() | {"z": np.array([0.5, 0.3])})
    while step.chain.n_bright == 0:
        point, _ = step.step(point)
    return step.chain


@pytest.mark.parametrize(
    ("factor", "is_read"), [(1.0, False), (1.0 + 1e-13, True), (1.0 + 1e-9, True)]
)
def test_rows_are_read_where_coefficients_change(chain, factor, is_read):
    posterior, *_, state, bright, scratch = chain._arguments()
    n, scales = bright.count[0], posterior.scales
    assert n > 0 and len(scales.scale) == 1
    theta = state.theta.copy()
    theta[scales.scale[0]] += 0.7
    theta[scales.effects] *= np.exp(-0.7) * factor
    standardise(posterior.geometry, theta, state.v_new)
    log_density = density_and_gradient(posterior, theta, state.w_new, np.empty(len(theta)))
    take_dark(posterior.rows, bright, state)
    chain.take_queries()
    state.log_factor_new[:n] = np.nan
    found = log_ratio_at(posterior, log_density, state, bright, scratch)
    assert chain.take_queries() == (n if is_read else 0)
    # Of 200 rows, each with a predictor times its slope below 10; and rounding.
    error = 2000.0 * (factor - 1.0) + 1e-10
    assert abs(found - (log_density - state.log_density[0])) < error
    np.testing.assert_allclose(state.log_factor_new[:n], bright.log_factor[:n], rtol=0, atol=error)


@pytest.mark.parametrize(("factor", "stays"), [(1.0 + 1e-15, True), (1.0 + 1e-13, False)])
def test_coefficients_do_not_leave_the_cached_factors(chain, factor, stays):
    """Moves smaller than rounding do not add up."""
    *_, state, bright, _ = chain._arguments()
    n, w = bright.count[0], state.w.copy()
    cached = bright.log_factor[:n].copy()
    state.w_new[:] = w * factor
    state.log_factor_new[:n] = cached - 1.0
    accept_conditional_update(state, state.log_density[0], bright)
    assert np.array_equal(state.w, w) == stays
    assert np.array_equal(bright.log_factor[:n], cached) == stays


def test_locations_are_sums():
    rng = np.random.default_rng(2)
    offset, weights = (
        rng.normal(size=3),
        np.array([[0.5, 0.0, -2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]]),
    )
    rows, place = np.nonzero(weights)
    first = np.searchsorted(rows, np.arange(4))
    locations, theta = Locations(offset, first, place, weights[rows, place]), rng.normal(size=3)
    found = [location_of(locations, i, theta) for i in range(3)]
    np.testing.assert_allclose(found, offset + weights @ theta, rtol=1e-14)


def test_moves_of_scales_that_multiply_their_effects_read_no_row():
    places, power = np.arange(4), np.array([CENTRED, CENTRED, NON_CENTRED, NON_CENTRED])
    scales = SharedScales(np.array([5, 6]), np.array([0, 2, 4]), places, Locations.zero(4), power)
    assert scales.n_reading == 1
