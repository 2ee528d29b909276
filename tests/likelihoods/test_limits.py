"""Limits that are computed from the graphs of log-likelihoods.

``python -m tests.likelihoods.test_limits`` prints how much larger they are than what there is, for
all families of one predictor, beside limits derived by hand.
"""

import functools
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pymc_flymc import UnsupportedModelError
from pymc_flymc.likelihoods import LIKELIHOODS, ZeroTruncatedPoisson
from pymc_flymc.likelihoods.family import JointlySmoothFamily, SmoothFamily, limit_within
from tests.support.series import Series

N = 64


@dataclass(frozen=True)
class Written(JointlySmoothFamily):
    """A family with some log-likelihood."""

    graph: Any
    n_predictors: int = 2
    name = "written"

    def log_likelihood(self, arguments, y):
        return self.graph(*arguments, y)


@dataclass(frozen=True)
class WrittenOfOne(SmoothFamily):
    graph: Any
    name = "written"

    def log_likelihood(self, arguments, y):
        return self.graph(*arguments, y)


# --- limits of what functions consist of ----------------------------------------------------------

#: Operations, as graphs and as power series: each is finite wherever its arguments are.
UNARY = [
    (lambda v: pt.exp(0.2 * v), lambda v: (v * 0.2).exp()),
    (pt.softplus, lambda v: (v.exp() + 1.0).log()),
    (pt.sigmoid, lambda v: ((-v).exp() + 1.0).power(-1)),
    (pt.cos, Series.cos),
    (pt.sqr, lambda v: v * v),
    (lambda v: pt.log1p(pt.sqr(v)), lambda v: (v * v + 1.0).log()),
    (lambda v: 1.0 / (1.0 + pt.exp(v)), lambda v: (v.exp() + 1.0).power(-1)),
    (lambda v: -pt.sqrt(2.0 + pt.sin(v)), lambda v: -(v.sin() + 2.0).power(0.5)),
]
BINARY = [
    (lambda a, b, y: a + b, lambda a, b, y: a + b),
    (lambda a, b, y: a - y * b, lambda a, b, y: a - b * y),
    (lambda a, b, y: a * b, lambda a, b, y: a * b),
    (
        lambda a, b, y: pt.switch(pt.log1p(y) > 0.5, a, b),
        lambda a, b, y: Series(np.where(np.log1p(y) > 0.5, a.c, b.c)),
    ),
]


def combined(parts):
    """Return functions of functions, as pairs of a graph and a power series."""

    def unary(operation, part):
        return tuple(
            lambda *given, f=f, g=g: f(g(*given)) for f, g in zip(operation, part, strict=True)
        )

    def binary(operation, one, two):
        return tuple(
            lambda *given, f=f, g=g, h=h: f(g(*given), h(*given), given[-1])
            for f, g, h in zip(operation, one, two, strict=True)
        )

    return st.one_of(
        st.builds(unary, st.sampled_from(UNARY), parts),
        st.builds(binary, st.sampled_from(BINARY), parts, parts),
    )


PREDICTORS = st.sampled_from([(lambda a, b, y: a,) * 2, (lambda a, b, y: b,) * 2])


@settings(max_examples=150)
@given(function=st.recursive(PREDICTORS, combined, max_leaves=4), seed=st.integers(0, 10**6))
def test_limits_of_compositions(function, seed):
    """No less than what there is within a half-width; where there is none, anywhere is not less."""
    graph, exact = function
    family, rng = Written(graph), np.random.default_rng(seed)
    eta, spread = rng.normal(size=(2, N)), np.exp(rng.normal(-1.0, 1.0, (2, N)))
    half_width, y = spread * rng.choice([1e-3, 0.3, 2.0]), rng.poisson(1.0, N).astype(float)
    there = eta + half_width * rng.uniform(-1.0, 1.0, (2, N))
    direction = spread * rng.choice([-1.0, 0.5, 1.0], (2, N))
    series = exact(*map(Series.line, there, direction), y)
    for order in (1, 2, 3, 4):
        largest = np.abs(series.derivative(order))
        near = limit_within(family, order, eta - half_width, eta + half_width, spread, y)
        wide = limit_within(
            family, order, eta - 2.0 * half_width, eta + 2.0 * half_width, spread, y
        )
        assert np.all(largest <= near * (1.0 + 1e-12) + 1e-14)
        assert np.all(near <= wide * (1.0 + 1e-12))


@pytest.mark.parametrize(
    ("graph", "exact", "growth"),
    [
        (lambda eta, y: -y * pt.exp(-eta), lambda v, y: -(-v).exp() * y, 1.0),
        (lambda eta, y: 0.3 * pt.cos(y - eta), lambda v, y: (-v + y).cos() * 0.3, 0.0),
        (
            lambda eta, y: y * eta - pt.exp(2.0 * eta + pt.log(y)) - pt.softplus(-eta),
            lambda v, y: v * y - (v * 2.0).exp() * y - ((-v).exp() + 1.0).log(),
            2.0,
        ),
        (
            lambda eta, y: pt.switch(y > 1.5, -pt.exp(0.5 * eta), -pt.exp(pt.sin(eta))),
            lambda v, y: Series(np.where(y > 1.5, -(v * 0.5).exp().c, -v.sin().exp().c)),
            1.0,
        ),
    ],
)
def test_limits_anywhere(graph, exact, growth):
    """They hold at any distance, as they grow."""
    family, rng = WrittenOfOne(graph), np.random.default_rng(0)
    assert family.growth == growth
    y, eta = rng.poisson(1.0, N) + 1.0, rng.normal(0.0, 2.0, N)
    for order in (3, 4):
        ends = (eta, eta) if growth else (-np.inf, np.inf)
        scale = family.derivative_bound(order, *ends, y)
        for d in (-30.0, -3.0, -0.1, 0.0, 0.1, 3.0, 30.0):
            largest = np.abs(exact(Series.line(eta + d), y).derivative(order))
            assert np.all(largest <= scale * np.exp(growth * abs(d)) * (1.0 + 1e-12))


def test_without_limits():
    """Where none can be computed the error says so, and what to do."""
    y = np.ones(3)
    no_rule = {
        "Abs": lambda eta, y: pt.abs(eta),
        "Maximum": lambda eta, y: pt.maximum(eta, y),
        "Gt": lambda eta, y: pt.switch(eta > 0.0, eta, y),
        "Pow": lambda eta, y: y**eta,
    }
    for name, graph in no_rule.items():
        with pytest.raises(UnsupportedModelError, match=rf"written .* {name}.* derivative_bound"):
            WrittenOfOne(graph).derivative_bound(3, -y, y, y)
    # The rate of the second one differs from row to row, and there is none for the last.
    unlimited = {
        "heavy tails": lambda eta, y: -pt.log1p(pt.sqr(y - eta)),
        "rates": lambda eta, y: -pt.exp(y * eta),
        "double": lambda eta, y: -pt.exp(pt.exp(eta)),
    }
    for graph in unlimited.values():
        family = WrittenOfOne(graph)
        assert np.all(np.isfinite(family.derivative_bound(3, -y, y, y)))
        with pytest.raises(UnsupportedModelError, match="no limit that can be computed"):
            family.derivative_bound(3, -np.inf, np.inf, y)
    cube = Written(lambda eta, tau, y: eta**3 * tau)
    with pytest.raises(UnsupportedModelError, match="third_beyond"):
        cube.third_beyond(np.zeros((2, 3)), np.ones((2, 3)), y)
    assert np.all(np.isfinite(cube.third_bound(*np.ones((3, 2, 3)), y)))


# --- all families ---------------------------------------------------------------------------------

COUNTS = np.array([0.0, 1.0, 4.0, 30.0])
TRIALS = np.column_stack([COUNTS, COUNTS + 3.0])
#: Observed values of families of one predictor: all that are listed.
OUTCOMES = {
    "bernoulli-logit": COUNTS[:2],
    "bernoulli-probit": COUNTS[:2],
    "bernoulli-cloglog": COUNTS[:2],
    "ordered-logit": COUNTS[:2],
    "binomial-logit": TRIALS,
    "geometric": np.column_stack([np.ones(3), COUNTS[1:]]),
    "negative-binomial-log": TRIALS,
    "poisson-log": COUNTS,
    "zero-truncated-poisson": COUNTS[1:],
    "zero-truncated-negative-binomial": TRIALS[1:] - [0.0, 2.5],
    "durations": np.array([[0.3, 0.0], [2.0, 1.0], [0.7, -1.0]]),
    "weibull-free": np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]]),
    "censored-normal": np.array([[1.0, 1.0], [0.0, 1.0], [0.0, -1.0]]),
    "von-mises": np.array([-3.0, 0.2, 2.0]),
}
FAMILIES = {
    family.name: family
    for family in LIKELIHOODS
    if family.n_predictors == 1 and hasattr(family, "derivative_bound")
}
#: With what a model may have.
FAMILIES |= {
    name: replace(FAMILIES[name], from_left=True) for name in ("durations", "weibull-free")
}


GRID = np.linspace(-6.0, 6.0, 4001)


@functools.cache
def derivatives_of(name):
    """Return the third and the fourth derivative on the grid, for each of the observed values."""
    family, eta = FAMILIES[name], pt.dvector()
    columns = [pt.dvector() for _ in range(1 + len(family.row_data))]
    out = [family.log_likelihood([eta], columns if family.row_data else columns[0])]
    for _ in range(4):
        out.append(pytensor.grad(out[-1].sum(), eta))
    mode = pytensor.compile.Mode(linker="py", optimizer="merge")
    function = pytensor.function([eta, *columns], out[3:], mode=mode)
    return [function(GRID, *rows_of(y, len(GRID)).T) for y in OUTCOMES[name]]


def rows_of(y, n):
    """Return equal observed values, shape (n, 1 + R)."""
    return np.repeat(np.atleast_2d(y), n, axis=0)


def largest_and_limits(name, i, order, width):
    """Return the largest derivative in intervals, computed limits, and what these are for.

    It is for the i-th of the observed values.
    """
    family = FAMILIES[name]
    starts = np.arange(0, len(GRID) - width, 20)
    found = np.abs(derivatives_of(name)[i][order - 3])
    inside = found[starts[:, None] + np.arange(width + 1)].max(axis=1)
    low, high = GRID[starts], GRID[starts + width]
    rows = rows_of(OUTCOMES[name][i], len(low))
    rows = rows if family.row_data else rows[:, 0]
    return inside, limit_within(family, order, [low], [high], [1.0], rows), (low, high, rows)


def test_all_families_are_here():
    assert OUTCOMES.keys() == FAMILIES.keys()


@pytest.mark.parametrize("name", FAMILIES)
def test_limits_of_families(name):
    """No less than what there is between two places, nor far away."""
    family = FAMILIES[name]
    for i, order, width in product(range(len(OUTCOMES[name])), (3, 4), (2, 800)):
        largest, limits, (low, high, rows) = largest_and_limits(name, i, order, width)
        # Rounding of the graphs, whose terms cancel.
        rounding = 1e-9 * (1.0 + np.exp(np.abs(high)))
        assert np.all(largest <= limits * (1.0 + 1e-9) + rounding)
        own = family.derivative_bound(order, low, high, rows)
        assert np.all(largest <= own * (1.0 + 1e-9) + rounding)
        middle = np.full(len(low), low[len(low) // 2])
        ends = (middle, middle) if family.growth else (-np.inf, np.inf)
        scale = family.derivative_bound(order, *ends, rows)
        distance = np.maximum(np.abs(high - middle), np.abs(low - middle))
        assert np.all(largest <= scale * np.exp(family.growth * distance) + rounding)


#: Limits as they were derived by hand: no larger, and as large where nothing cancels.
BY_HAND = {
    "poisson-log": lambda low, high, y: np.exp(high),
    "durations": lambda low, high, y: np.where(
        y[:, 1] < 0,
        np.minimum(0.4261, 0.5 * y[:, 0] * np.exp(-low)),
        y[:, 0] * np.exp(-low),
    ),
    "binomial-logit": lambda low, high, y: y[:, 1] * largest_of_softplus(low, high),
    "bernoulli-cloglog": lambda low, high, y: np.where(
        y == 1, np.minimum(0.4261, 0.5 * np.exp(high)), np.exp(high)
    ),
    "zero-truncated-poisson": lambda *given: ZeroTruncatedPoisson().derivative_bound(3, *given),
}


def largest_of_softplus(low, high):
    """Return the largest third derivative on a dense grid."""
    p = expit(low + (high - low) * np.linspace(0.0, 1.0, 401)[:, None])
    return np.abs(p * (1.0 - p) * (1.0 - 2.0 * p)).max(axis=0)


@pytest.mark.parametrize("name", BY_HAND)
def test_no_looser_than_by_hand(name):
    for i in range(len(OUTCOMES[name])):
        _, limits, ends = largest_and_limits(name, i, 3, 100)
        # In the truncated variable two terms cancel, so that its family has its own limits.
        most = 3.2 if name == "zero-truncated-poisson" else 1.0 + 1e-4
        assert np.all(limits <= most * BY_HAND[name](*ends))


def main():
    """Print the table."""
    print("quantiles 0, 0.5 and 1 of limits over the largest third derivatives, and over by hand")
    for name in FAMILIES:
        for (i, y), width in product(enumerate(OUTCOMES[name]), (2, 100, 800)):
            largest, limits, ends = largest_and_limits(name, i, 3, width)
            ratios = [(limits / largest)[largest > 1e-6]]
            if name in BY_HAND:
                ratios.append(limits / BY_HAND[name](*ends))
            shown = [np.round(np.quantile(each, [0.0, 0.5, 1.0]), 3) for each in ratios]
            print(f"{name:33} width {0.003 * width:5.3f}  y {y!s:12}", *shown)


if __name__ == "__main__":
    main()


class OfRate(SmoothFamily):
    """A family whose derivatives grow at a rate that is an attribute."""

    name = "of a rate"
    rate = 1.0

    def __init__(self, rate):
        self.rate = rate

    def read(self, rv):
        raise NotImplementedError

    def log_likelihood(self, arguments, y):
        return -pt.exp(self.rate * arguments[0])


@dataclass(init=False)
class OfRateByValue(OfRate):
    """The same as a dataclass, which Python cannot hash."""


@pytest.mark.parametrize("kind", [OfRate, OfRateByValue])
def test_limits_are_those_of_a_family_as_it_is_now(kind):
    family, y = kind(1.0), np.zeros(1)
    for rate in (1.0, 3.0):
        family.rate = rate
        assert family.growth == rate
        np.testing.assert_allclose(family.derivative_bound(3, 0.0, 0.0, y), rate**3)
