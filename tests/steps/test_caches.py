"""What a chain keeps of its state stays right."""

import numpy as np
import pytest

from tests.support.data import logistic_rows
from tests.support.steps import SCHEMES, drive


def test_variables_moved_from_outside_get_their_brightness_anew(shared):
    """Whoever moves theta between steps gets a valid chain: z is redrawn, caches recomputed."""
    model, step = shared()
    step.setup_chain(np.random.default_rng(0), 0, 10)
    step.stop_tuning()
    point, _ = step.step(model.initial_point())
    moved = {"beta": point["beta"] + 0.1}
    queries = step.step(moved)[1][0]["likelihood_queries"]
    assert queries > 400
    check_caches(step, logistic_rows(400)[0])


def check_caches(step, X):
    chain = step.chain
    state, bright, target = chain.state, chain.bright, step.target
    w = np.empty_like(state.w)
    density = target.density(state.theta, chain.statistics, w)
    assert density == pytest.approx(state.log_density[0], rel=1e-9)
    np.testing.assert_allclose(w, state.w, rtol=1e-9)
    geometry = target.geometry
    np.testing.assert_allclose(
        geometry.centre + geometry.factor @ state.v, state.theta, rtol=1e-9, atol=1e-12
    )
    n = chain.n_bright
    index = bright.index[:n]
    assert len(set(index)) == n
    np.testing.assert_array_equal(bright.slot[index], np.arange(1, n + 1))
    assert np.count_nonzero(bright.slot) == n
    eta = X[index] @ state.w
    curvature, constant = target.data.rows.constants[index].T
    gap = curvature * eta**2 + constant - np.log(2.0 * np.cosh(0.5 * eta))
    odds = np.log(np.expm1(gap))
    np.testing.assert_allclose(bright.log_factor[:n], odds, rtol=1e-9, atol=1e-9)


#: The explicit schemes differ in what they choose; the quick suite has the cycle.
LONG = "with-replacement", "without-replacement"


@pytest.mark.parametrize(
    "scheme", [pytest.param(s, marks=pytest.mark.slow if s in LONG else ()) for s in SCHEMES]
)
def test_caches_do_not_drift(shared, scheme):
    model, step = shared(scheme)
    drive(step, model.initial_point(), tune=200, draws=1500)
    check_caches(step, logistic_rows(400)[0])
