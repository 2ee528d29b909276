"""Limits of the functions that log-likelihoods consist of, against their exact derivatives."""

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytensor.scalar import basic as ps
from pytensor.scalar.math import Sigmoid, Softplus
from scipy.special import log_ndtr

from pymc_flymc.likelihoods import jets
from pymc_flymc.likelihoods.jets import (
    ELEMENTARY,
    LOG_NORMAL_CDF,
    LOG_POSITIVE,
    LOG_SOFTPLUS,
    power,
)
from tests.support.series import Series

POINTS = 4001


def softplus(v):
    return (v.exp() + 1.0).log()


def log_normal_cdf(s):
    """From its value and its slope r(s), whose logarithm has the slope -s - r."""
    value = log_ndtr(s.c[0].astype(float)).astype(np.longdouble)
    ratio = np.exp(-0.5 * s.c[0] ** 2 - value) / np.sqrt(2.0 * np.longdouble(np.pi))
    out, slopes = [value], [ratio]
    for k in range(4):
        out.append(slopes[k] / (k + 1))
        rate = [-(s.c[i] + slopes[i]) for i in range(k + 1)]
        slopes.append(sum(rate[i] * slopes[k - i] for i in range(k + 1)) / (k + 1))
    return Series(out)


#: The function with its limits, the exact one, where it is looked at, and how much of the limit is
#: there somewhere in an interval, at least, if that is short.
FUNCTIONS = {
    "exp": (ELEMENTARY[ps.Exp], Series.exp, (-9.0, 9.0), 0.99),
    "expm1": (ELEMENTARY[ps.Expm1], lambda v: v.exp() - 1.0, (-9.0, 9.0), 0.99),
    "log": (ELEMENTARY[ps.Log], Series.log, (0.1, 9.0), 0.8),
    "log1p": (ELEMENTARY[ps.Log1p], lambda v: (v + 1.0).log(), (-0.9, 9.0), 0.8),
    "softplus": (ELEMENTARY[Softplus], softplus, (-9.0, 9.0), 0.99),
    "sigmoid": (ELEMENTARY[Sigmoid], lambda v: ((-v).exp() + 1.0).power(-1), (-9.0, 9.0), 0.0),
    "cos": (ELEMENTARY[ps.Cos], Series.cos, (-9.0, 9.0), 0.99),
    "sin": (ELEMENTARY[ps.Sin], Series.sin, (-9.0, 9.0), 0.99),
    "sqr": (ELEMENTARY[ps.Sqr], lambda v: v * v, (-9.0, 9.0), 0.99),
    "sqrt": (ELEMENTARY[ps.Sqrt], lambda v: v.power(0.5), (0.1, 9.0), 0.8),
    "reciprocal": (ELEMENTARY[ps.Reciprocal], lambda v: v.power(-1), (0.1, 9.0), 0.7),
    "negative": (ELEMENTARY[ps.Reciprocal], lambda v: v.power(-1), (-9.0, -0.1), 0.7),
    "cube": (power(3.0), lambda v: v * v * v, (-9.0, 9.0), 0.99),
    "power": (power(-1.5), lambda v: v.power(-1.5), (0.1, 9.0), 0.7),
    "log positive": (LOG_POSITIVE, lambda x: (-(-x.exp()).exp() + 1.0).log(), (-9.0, 4.0), 0.0),
    "log softplus": (LOG_SOFTPLUS, lambda v: softplus(v).log(), (-12.0, 9.0), 0.0),
    "log normal cdf": (LOG_NORMAL_CDF, log_normal_cdf, (-9.0, 9.0), 0.0),
}


def _everywhere(function, order):
    with np.errstate(all="ignore"):
        return function.limit(order, np.float64(-np.inf), np.float64(np.inf))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_limits(name):
    """No less than what there is between two places, and little more if these are near."""
    function, exact, span, tight = FUNCTIONS[name]
    grid = np.linspace(*span, POINTS)
    series = exact(Series.line(grid))
    values = series.derivative(0)
    for width in (1, 40, 1000):
        starts = np.arange(0, POINTS - width, 20)
        inside = starts[:, None] + np.arange(width + 1)
        low, high = grid[starts], grid[starts + width]
        least, most = function.ends(low, high)
        rounding = 1e-15 * (1.0 + np.abs(values[inside]).max(axis=1))
        assert np.all(values[inside].min(axis=1) >= least - rounding)
        assert np.all(values[inside].max(axis=1) <= most + rounding)
        for order in (1, 2, 3, 4):
            largest = np.abs(series.derivative(order))[inside].max(axis=1)
            limit = function.limit(order, low, high)
            assert np.all(largest <= limit * (1.0 + 1e-12) + 1e-15)
            if width == 1:
                assert np.all(largest >= tight * limit)
            assert np.all(limit <= _everywhere(function, order))


@pytest.mark.parametrize("name", ["log positive", "log softplus", "log normal cdf"])
def test_largest_derivatives(name):
    """Those that are not one are attained, but for what was rounded up."""
    function, exact, span, _ = FUNCTIONS[name]
    series = exact(Series.line(np.linspace(*span, 40_001)))
    for order in (2, 3, 4):
        limit = _everywhere(function, order)
        assert np.abs(series.derivative(order)).max() > 0.998 * limit or limit == 1.0, order


@given(
    a=st.floats(-14.0, 14.0),
    width=st.floats(0.0, 3.0),
    k=st.sampled_from([0, 1, 2, 3, 10, 100, 3000]),
)
def test_limits_of_the_rising_factorial(a, width, k):
    """No less than the sums themselves, nor much more at one place."""
    limit = jets._limit_of_rising
    j, at = np.arange(k), np.linspace(a, a + width, 41)
    p = 1.0 / (1.0 + j * np.exp(-at)[:, None])
    s = p * (1.0 - p)
    sums = p, s, s * (1.0 - 2.0 * p), s * (1.0 - 6.0 * s)
    for order, terms in enumerate(sums, start=1):
        largest = np.abs(terms.sum(axis=1)).max()
        found = limit(order, a, a + width, float(k))
        assert largest <= found * (1.0 + 1e-12)
        assert found <= limit(order, -np.inf, np.inf, float(k))
        if width == 0.0 and order < 3:
            assert found <= 2.5 * largest


def test_graphs_say_what_they_are():
    x, k = pt.dvectors("x", "k")
    for name in ("log_positive", "log_softplus", "log_normal_cdf"):
        known = jets.known_of(getattr(jets, name)(x))
        assert known is not None and known.inputs == (x,)
    assert jets.known_of(jets.log_rising_of_exp(x, k)).inputs == (x, k)
