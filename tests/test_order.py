"""Processors and BLAS libraries round differently: no name and no choice depends on it."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH
from pymc_flymc.anchor import propriety
from pymc_flymc.anchor.newton import Lines
from pymc_flymc.order import ascending, first_largest, n_largest, significant
from pymc_flymc.sampling import bound_choice

#: Differences in the last bits, either way.
UP, DOWN = 1.0 + 4.0 * np.finfo(float).eps, 1.0 - 4.0 * np.finfo(float).eps


def test_numbers_equal_but_for_rounding_keep_their_order():
    values = 0.3 * np.array([DOWN, 2.0, UP, 2.0 * UP, 1.0, 1.9, 0.0, np.inf, -np.inf])
    np.testing.assert_array_equal(ascending(values), [8, 6, 0, 2, 4, 5, 1, 3, 7])
    np.testing.assert_array_equal(n_largest(values, 3), [1, 3, 7])
    assert first_largest(values[:7]) == 1
    assert first_largest(values[:6].reshape(3, 2)) == 1
    np.testing.assert_allclose(significant(values), values, rtol=1e-6)


@pytest.mark.parametrize("rounding", [(UP, DOWN), (DOWN, UP)])
def test_collinear_columns_are_named_in_the_order_of_the_model(rounding):
    names = SimpleNamespace(describe=lambda i: "abcdef"[i])
    objective = SimpleNamespace(
        posterior=SimpleNamespace(layout=names), effects=SimpleNamespace(dense=np.arange(6))
    )
    weights = np.sqrt([[0.0, 0.1, 0.2, 0.2, 0.4, 0.1]]) * [1.0, *rounding, *rounding, 1.0]
    line = Lines(objective, np.zeros(6), np.array([1e-6]), weights, np.zeros((1, 6)))
    assert "that b, c, d, e multiply" in line.described(0)


def test_flat_directions_do_not_depend_on_their_basis(monkeypatch):
    """Of three equal columns LAPACK returns two directions, any two of a plane."""
    found, x = [], np.random.default_rng(0).normal(size=300)
    original = propriety._null_space

    for seed in range(8):
        turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(2, 2)))[0]
        monkeypatch.setattr(
            propriety, "_null_space", lambda *given, turn=turn: original(*given) @ turn
        )
        with pm.Model():
            b = pm.Flat("b", shape=3)
            pm.Bernoulli("y", logit_p=np.stack([x, x, x], axis=1) @ b, observed=x > x[::-1])
            with pytest.raises(ValueError, match="the posterior is improper") as error:
                FireflyMH()
        found.append(str(error.value))
    assert len(set(found)) == 1


@pytest.mark.parametrize("rounding", [(UP, DOWN), (DOWN, UP)])
def test_the_first_of_equally_tight_bounds_is_taken(rounding, monkeypatch):
    monkeypatch.setattr(bound_choice, "estimate_rows", lambda bound, problem: 7.0 * bound.error)
    bounds = [SimpleNamespace(error=each) for each in (1.1, *rounding)]
    assert bound_choice.tightest(bounds, None) is bounds[1]
