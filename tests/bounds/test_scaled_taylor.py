"""The scaled Taylor bound: below the likelihood at any scale, tight at the anchor, collapsing."""

import numpy as np
import pymc as pm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammaln

from pymc_flymc import FireflyMH, ScaledTaylor, weighted
from pymc_flymc.kernels.layout import Powers

N = 400
RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 3))])
Y = np.exp(X @ [0.5, 0.4, -0.3, 0.0]) * RNG.gamma(2.5, 0.4, N)
WEIGHTS = RNG.exponential(size=N)


@pytest.fixture(scope="module", params=["plain", "weights"])
def prepared(request):
    """A step, and the weights of its rows."""
    with pm.Model():
        beta, k = pm.Normal("beta", 0.0, 2.0, shape=4), pm.LogNormal("k")
        distribution = dict(alpha=k, beta=k / pm.math.exp(X @ beta))
        if request.param == "plain":
            pm.Gamma("y", observed=Y, **distribution)
        else:
            weighted("y", pm.Gamma.dist(**distribution), WEIGHTS, observed=Y)
        return FireflyMH(kernel="joint"), np.ones(N) if request.param == "plain" else WEIGHTS


def rows_at(step, weights, theta):
    """Log-likelihoods, rates and expansions of all rows by definition, with rounding errors."""
    target, beta, log_shape = step.target, theta[:4], theta[4]
    w = np.empty(target.n_slopes)
    log_density = target.density(theta, target.statistics, w)
    shared = Powers(*w[5:])
    near, beyond, y, anchor, _, known = target.data.rows.constants.T
    np.testing.assert_allclose(known, weights, rtol=1e-14)
    np.testing.assert_array_equal(y, Y)
    eta, a, e = X @ beta, np.exp(log_shape), Y * np.exp(-anchor)
    u = eta - anchor
    normaliser = a * (log_shape + np.log(Y)) - gammaln(a)
    parts = a * eta, a * Y * np.exp(-eta), a * anchor, a * e, a * e * u, a * e * u**2
    log_l = weights * (normaliser - parts[0] - parts[1])
    rate = near * shared.near + beyond * shared.beyond
    expansion = weights * (normaliser - parts[2] - parts[3] - a * u + parts[4] - 0.5 * parts[5])
    size = 1.0 + weights * (np.abs(normaliser) + a * np.abs(u) + sum(map(np.abs, parts)))
    return log_l, rate, expansion, size, log_density


@settings(max_examples=200)
@given(
    v=st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    scale=st.floats(0.0, 1e3),
    log_shape=st.floats(-20.0, 15.0),
)
def test_bound_is_below_the_likelihood_and_collapses(prepared, v, scale, log_shape):
    step, weights = prepared
    geometry = step.target.geometry
    theta = geometry.centre + scale * (geometry.factor @ np.array([*v, 0.0]))
    theta[4] = log_shape
    log_l, rate, expansion, size, log_density = rows_at(step, weights, theta)
    epsilon = np.finfo(float).eps
    log_b = expansion - rate
    assert np.all(log_l - log_b >= -32 * epsilon * (size + np.abs(log_b)))
    prior = stats.norm.logpdf(theta[:4], 0.0, 2.0).sum() + stats.norm.logpdf(log_shape)
    assert log_density == pytest.approx(
        prior + expansion.sum(), abs=1e-10 * (abs(prior) + size.sum() + np.abs(expansion).sum())
    )


@pytest.mark.parametrize("log_shape", [-3.0, 0.0, 8.0])
def test_bound_touches_at_the_anchor(prepared, log_shape):
    """Whatever the shape is."""
    step, weights = prepared
    theta = step.target.geometry.centre.copy()
    theta[4] = log_shape
    log_l, rate, expansion, size, _ = rows_at(step, weights, theta)
    assert np.all(np.abs(log_l - expansion + rate) <= 32 * np.finfo(float).eps * size + 1e-12)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
def test_native_values(prepared, scale):
    """Of bright rows, as kernels read them, far out as near."""
    step, weights = prepared
    target, rng = step.target, np.random.default_rng(1)
    (part,) = target.parts
    for log_shape in (-6.0, 1.0, 7.0):
        theta = target.geometry.centre + scale * (target.geometry.factor @ rng.normal(size=5))
        theta[4] = log_shape
        log_l, rate, expansion, size, _ = rows_at(step, weights, theta)
        w, out = np.empty(target.n_slopes), np.empty(N)
        target.density(theta, target.statistics, w)
        part.log_factor((X @ theta[:4])[:, None], target.data.rows.constants, w[4:], out)
        gap = log_l - expansion + rate
        known = gap > 1e6 * np.finfo(float).eps * size  # else rounding is what is left
        assert known.any()
        expected = (log_l - expansion)[known] + np.log(-np.expm1(-gap[known]))
        error = 1e3 * np.finfo(float).eps * size[known] / np.minimum(gap[known], 1.0)
        assert np.all(np.abs(out[known] - expected) <= error + 1e-9 * np.abs(expected))


def test_few_rows_are_bright_at_any_shape():
    """The rows expected do not grow with the shape: their predictors are known the better."""
    rng, found = np.random.default_rng(2), []
    for shape in (0.5, 5.0, 500.0):
        y = np.exp(X @ [0.5, 0.4, -0.3, 0.0]) * rng.gamma(shape, 1.0 / shape, N)
        with pm.Model():
            beta, k = pm.Normal("beta", 0.0, 2.0, shape=4), pm.LogNormal("k", 0.0, 5.0)
            pm.Gamma("y", alpha=k, beta=k / pm.math.exp(X @ beta), observed=y)
            step = FireflyMH(kernel="joint")
        assert isinstance(step.bounds[0], ScaledTaylor)
        found.append(step.target.parts[0].expected_bright)
    assert found[0] > found[1] > found[2]
