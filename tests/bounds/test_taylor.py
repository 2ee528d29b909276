"""Properties of the Taylor bound: below the likelihood, tight at the anchor, collapsing."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_flymc import Taylor
from pymc_flymc.bounds.taylor import Packed
from pymc_flymc.kernels.layout import Powers
from pymc_flymc.likelihoods import BernoulliLogit, BernoulliProbit, PoissonLog
from tests.support.data import logistic_rows, standardised
from tests.support.steps import logistic_step


def derivative(order, eta):
    """Third and fourth derivatives of -log(1 + exp(eta)), from p = sigmoid(eta)."""
    p, q = 1.0 / (1.0 + np.exp(-eta)), 1.0 / (1.0 + np.exp(eta))
    return -p * q * (q - p) if order == 3 else -p * q * (1.0 - 6.0 * p * q)


@given(order=st.sampled_from([3, 4]), a=st.floats(-20, 20), width=st.floats(0, 30))
def test_derivative_bound_is_the_supremum(order, a, width):
    grid = np.linspace(a, a + width, 4001)
    largest = np.max(np.abs(derivative(order, grid)))
    (bound,) = BernoulliLogit().derivative_bound(order, a, a + width, np.zeros(1))
    # The grid may miss the supremum by its spacing, squared, times a derivative below one.
    assert largest <= bound * (1 + 1e-12) + 1e-16
    assert bound <= largest + (width / 4000) ** 2 + 1e-12


def gaps(step, X, y, theta):
    """Gaps and expansions of all rows at theta from their definitions, with the own constants."""
    target = step.target
    w = np.empty(target.n_slopes)
    log_density = target.density(theta, target.statistics, w)
    shared = Powers(*w[X.shape[1] :])
    near, beyond, labels, anchor = target.data.rows.constants.T
    np.testing.assert_array_equal(labels, y)
    u, p = X @ theta - anchor, 1.0 / (1.0 + np.exp(-anchor))
    at = y * anchor - np.logaddexp(0.0, anchor)
    expansion = at + (y - p) * u - 0.5 * p * (1.0 - p) * u**2
    if step.bounds[0].order == 3:
        expansion += derivative(3, anchor) * u**3 / 6.0
    eta = X @ theta
    log_likelihood = y * eta - np.logaddexp(0.0, eta)
    log_bound = expansion - near * shared.near - beyond * shared.beyond
    # Rounding errors of the terms that are subtracted.
    rounding = 16 * np.finfo(float).eps * (1 + np.abs(eta) + np.abs(anchor) + u**2 + np.abs(u) ** 3)
    return log_likelihood - log_bound, expansion, rounding, log_density


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def prepared(request):
    X, y = logistic_rows(500, 4)
    return logistic_step(X, y, bound=Taylor(request.param))[1], X, y


@settings(max_examples=200)
@given(v=st.lists(st.floats(-1, 1), min_size=4, max_size=4), scale=st.floats(0.0, 300.0))
def test_bound_is_below_the_likelihood_and_collapses(prepared, v, scale):
    step, X, y = prepared
    geometry = step.target.geometry
    theta = geometry.centre + scale * (geometry.factor @ np.array(v))
    gap, expansion, rounding, log_density = gaps(step, X, y, theta)
    assert np.all(gap >= -rounding)
    prior = np.sum(stats.norm.logpdf(theta))
    size = np.abs(prior) + np.sum(np.abs(expansion))
    assert log_density == pytest.approx(prior + np.sum(expansion), abs=1e-10 * size)


def test_bound_touches_at_the_anchor(prepared):
    step, X, y = prepared
    gap, _, rounding, *_ = gaps(step, X, y, step.target.geometry.centre)
    assert np.all(np.abs(gap) <= rounding + 1e-12)


DATA = [
    ("mnist_7v9_pca50", None),
    ("skin", 60_000),
    ("adult", None),
    ("covtype_92k", 40_000),
    ("kddcup99_10pct", 60_000),
    ("flights_pnw", 60_000),
]


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize(("name", "rows"), DATA)
def test_no_gap_is_negative_on_real_data(data, name, rows, order):
    arrays = data(name)
    X, y = standardised(arrays["X"][:rows]), arrays["y"][:rows]
    if name == "covtype_92k":
        y = (y == 1).astype(int)
    if name == "flights_pnw":
        y = (y > 15).astype(int)
    _, step = logistic_step(X, y, bound=Taylor(order))
    geometry, rng = step.target.geometry, np.random.default_rng(0)
    for scale in (0.1, 1.0, 1.0, 3.0, 30.0):
        theta = geometry.centre + scale * (geometry.factor @ rng.standard_normal(X.shape[1]))
        gap, _, rounding, *_ = gaps(step, X, y, theta)
        assert np.all(gap >= -rounding)


@pytest.mark.parametrize("family", [PoissonLog(), BernoulliProbit()], ids=lambda each: each.name)
@pytest.mark.parametrize("order", [2, 3])
def test_remainder_is_smooth_at_its_limit(family, order):
    """And at the anchor: value, slope and curvature of what rows share do not jump."""
    limit, growth, h = 3.0, 0.4 if family.growth else 0.0, 1e-4
    p = 2
    packed = Packed(np.zeros(p), limit, growth, np.zeros((p, 3 * (order == 3))))
    expansion = [0.0], np.zeros(2 * p), np.eye(p).ravel() / 2.0
    statistics = np.concatenate([*expansion, *packed.ravelled()])
    w, given = pt.dvector("w"), pt.dvector("statistics")
    shared = Taylor(order).collapsed(family, w, given, p)[1]
    slopes = [pt.grad(shared[place], w)[0] for place in Powers()]
    mode = pytensor.compile.Mode(linker="py", optimizer="fast_compile")
    function = pytensor.function([w, given], [shared, pt.stack(slopes)], mode=mode)

    def at(radius):
        return np.array(function(np.array([radius, 0.0]), statistics))

    np.testing.assert_array_equal(at(0.0), 0.0)
    assert at(0.9 * limit)[0, Powers().beyond] == 0.0 < at(1.1 * limit)[0, Powers().beyond]
    before, here, after = at(limit - h), at(limit), at(limit + h)
    # Slopes and curvatures there are below 200: a jump is what h does not explain.
    assert np.all(np.abs(after - before) < 1e3 * h)
    curvatures = (here[1] - before[1]) / h, (after[1] - here[1]) / h
    np.testing.assert_allclose(*curvatures, rtol=1e-2, atol=300.0 * h)
