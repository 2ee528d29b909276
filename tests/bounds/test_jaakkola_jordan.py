"""The bound of Jaakkola and Jordan: below the likelihood, tight, collapsing exactly."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_flymc.bounds import JaakkolaJordan, log_odds
from pymc_flymc.likelihoods import BernoulliLogit
from pymc_flymc.regression.expansion import (
    QuadraticStatistics,
    collapsed_quadratic,
    quadratic_size,
)
from tests.support.data import dense_rows

predictors = st.floats(-1e3, 1e3, allow_nan=False)
tightness = st.one_of(st.sampled_from([0.0, 1e-8, 1.5, 50.0, 800.0]), st.floats(0.0, 1e3))


def log_likelihood(eta, y):
    return y * eta - np.logaddexp(0.0, eta)


def compile_py(inputs, output):
    return pytensor.function(
        inputs, output, mode=pytensor.compile.Mode(linker="py", optimizer=None)
    )


@pytest.fixture(scope="module")
def gap_functions():
    """gap(eta, constants) and log odds, as the model-independent graphs define them."""
    eta, constants = pt.dvector("eta"), pt.dmatrix("constants")
    gap = JaakkolaJordan().gap(BernoulliLogit(), [eta], constants, pt.zeros((0,)))
    gradient = pytensor.grad(gap.sum(), eta)
    return (
        compile_py([eta, constants], gap),
        compile_py([eta, constants], log_odds(gap)),
        compile_py([eta, constants], gradient),
    )


def rounding(eta, xi):
    """Size of rounding errors in a gap: machine epsilon times the terms that are subtracted."""
    return 8 * np.finfo(float).eps * (1.0 + abs(xi) + abs(eta) + eta**2 / (4.0 * max(xi, 2.0)))


@settings(max_examples=500)
@given(eta=predictors, xi=tightness, y=st.sampled_from([0.0, 1.0]))
def test_bound_is_below_the_likelihood(gap_functions, eta, xi, y):
    bound = JaakkolaJordan()
    a, b, c = bound.coefficients(np.array([xi]), np.array([y]), np.zeros(1))
    log_bound = c + b * eta - a * eta**2
    constants = bound.constants(np.array([xi]), np.array([y]), np.zeros(1))
    gap = gap_functions[0](np.array([eta]), constants)[0]
    # The gap that the kernels use is that between the likelihood and the quadratic ...
    assert gap == pytest.approx(
        log_likelihood(eta, y) - log_bound[0], rel=1e-12, abs=rounding(eta, xi)
    )
    # ... and never negative, but for rounding.
    assert gap >= -rounding(eta, xi)


@given(xi=tightness, sign=st.sampled_from([-1.0, 1.0]))
def test_bound_is_tight_where_it_touches(gap_functions, xi, sign):
    constants = JaakkolaJordan().constants(np.array([xi]), np.ones(1), np.zeros(1))
    gap, _, gradient = (f(np.array([sign * xi]), constants)[0] for f in gap_functions)
    assert abs(gap) <= rounding(xi, xi)
    assert abs(gradient) <= rounding(1.0, 1.0)


@given(eta=st.floats(-50, 50), xi=st.floats(0.0, 50))
def test_gradient_of_the_gap(gap_functions, eta, xi):
    constants = JaakkolaJordan().constants(np.array([xi]), np.ones(1), np.zeros(1))
    step = 1e-5
    if abs(eta) < 2 * step:
        return  # log 2cosh is written with |eta|: its graph has no derivative at zero
    gap, _, gradient = gap_functions
    up, down = (gap(np.array([eta + s]), constants)[0] for s in (step, -step))
    # Truncation of the central difference: step^2 / 6 times a third derivative below 0.1.
    tolerance = 0.1 * step**2 + 2 * rounding(eta, xi) / step
    assert gradient(np.array([eta]), constants)[0] == pytest.approx(
        (up - down) / (2 * step), abs=tolerance
    )


@given(eta=predictors, xi=tightness, slack=st.floats(0.0, 10.0))
def test_log_odds_never_lose_their_meaning(gap_functions, eta, xi, slack):
    constants = JaakkolaJordan().constants(np.array([xi]), np.ones(1), np.array([slack]))
    gap, odds, _ = (f(np.array([eta]), constants)[0] for f in gap_functions)
    assert not np.isnan(odds)
    if gap > 0:
        expected = gap if gap > 700 else np.log(np.expm1(gap))
        assert odds == pytest.approx(expected, rel=1e-12, abs=1e-12)
    else:
        assert odds == -np.inf


@pytest.mark.parametrize("slack", [0.0, 0.3])
@pytest.mark.parametrize("bound", [JaakkolaJordan(), JaakkolaJordan(xi=1.5)])
def test_collapsed_sum_is_the_sum_over_rows(bound, slack):
    rng = np.random.default_rng(1)
    n, p = 5000, 4
    x, offset = rng.normal(size=(n, p)) * [1, 10, 0.1, 3], rng.normal(size=n)
    y = rng.integers(0, 2, n).astype(float)
    anchor = rng.normal(size=p)
    slacks = slack * rng.random(n)
    eta = x @ anchor + offset
    xi = bound.tightness(None, slice(0, n), eta[None], y)
    a, b, c = bound.coefficients(xi, y, slacks)
    statistics = QuadraticStatistics(anchor)
    for rows in (slice(0, 3000), slice(3000, n)):
        statistics.add(dense_rows(x[rows]), eta[rows], a[rows], b[rows], c[rows])
    packed = statistics.pack()
    assert len(packed) == quadratic_size(None, p)
    w, s = pt.dvector("w"), pt.dvector("s")
    collapsed = compile_py([w, s], collapsed_quadratic(w, s, p))
    for scale in (0.0, 0.01, 1.0, 100.0):
        w_new = anchor + scale * rng.normal(size=p)
        eta_new = x @ w_new + offset
        by_row = c + b * eta_new - a * eta_new**2
        assert collapsed(w_new, packed) == pytest.approx(
            np.sum(by_row), rel=1e-10, abs=1e-10 * np.sum(np.abs(by_row))
        )
        # Trailing numbers, where values of other step methods' variables go, are not read.
        assert collapsed(w_new, np.append(packed, np.nan)) == collapsed(w_new, packed)


@pytest.mark.parametrize("xi", [-1.0, np.nan, [[1.0]], [0.1, -0.1]])
def test_bad_xi(xi):
    with pytest.raises(ValueError, match="xi must be a finite, non-negative number or one a row"):
        JaakkolaJordan(xi=xi)


@pytest.mark.parametrize("slack", [-0.1, np.inf, True])
def test_bad_slack(slack):
    with pytest.raises(ValueError, match="slack must be a finite number >= 0"):
        JaakkolaJordan(slack=slack)
