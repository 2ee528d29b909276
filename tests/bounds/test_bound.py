"""Bounds of rows in general: all or some kept bright, registered ones, rounding, the setting."""

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

from pymc_flymc import FireflyHMC, JaakkolaJordan, Taylor
from pymc_flymc.bounds import BOUNDS, AllRows, Problem
from pymc_flymc.bounds.bound import EPSILONS, rounding_error
from pymc_flymc.bounds.taylor import keep_bright
from pymc_flymc.extending import register_bound, unregister_bound
from pymc_flymc.kernels.dark_rates import FLOOR
from pymc_flymc.kernels.layout import ROW
from pymc_flymc.likelihoods import BernoulliLogit, BinomialLogit
from pymc_flymc.regression.design import Design
from pymc_flymc.sampling.bound_choice import settings_of
from tests.support.steps import step_of

Y = np.array([[2, 5], [0, 1], [7, 7]])


def test_factors_are_likelihoods_and_all_rows_are_bright():
    bound, family = AllRows(), BinomialLogit()
    design = Design(np.ones((3, 1)), np.empty((0, 1)), False)
    problem = Problem("y", design, Y, family, None, None)
    prepared = bound.prepare(problem, None)
    assert prepared.constants.shape == (3, bound.n_constants(family)) == (3, 2)
    assert bound.expected_rows(problem, 2) == prepared.bright.sum() == 3.0
    eta = np.array([0.3, -1.0, 2.0])
    graph = bound.gap(family, [pt.constant(eta)], pt.constant(prepared.constants), [])
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    found = pytensor.function([], graph, mode=mode)()
    p = 1.0 / (1.0 + np.exp(-eta))
    expected = stats.binom.logpmf(Y[:, 0], Y[:, 1], p)
    # But for what parameters do not change.
    assert found - expected == pytest.approx(family_constant(Y), abs=1e-12)
    assert bound.n_constants(BernoulliLogit()) == 1


def family_constant(y):
    return stats.binom.logpmf(y[:, 0], y[:, 1], 0.5) * -1.0 - y[:, 1] * np.log(2.0)


def test_rows_that_are_bright_more_often_than_the_limit():
    constants = np.zeros((4, 4))
    constants[:, ROW.near], constants[:, ROW.beyond] = [1e9, 3.0, 1e-30, 0.0], [2e9, 4.0, 1.0, 2.0]
    bright = np.array([0.9, 0.2, 0.1, 0.6])
    keep_bright(constants, bright, 0.6)
    np.testing.assert_array_equal(np.isinf(constants[:, ROW.near]), [True, False, False, False])
    np.testing.assert_array_equal(constants[:, ROW.beyond], [0.0, 4.0, 1.0, 2.0])
    np.testing.assert_array_equal(bright, [1.0, 0.2, 0.1, 0.6])
    # Of all others, in their sum: none has a rate that the sum would lose, but one without any.
    np.testing.assert_allclose(constants[1:, ROW.near], [3.0, FLOOR * 3.0, 0.0], rtol=1e-12)


def test_limits_that_overflow():
    """Of a group without events whose prior is very wide: its rows are kept bright, silently."""
    group = np.repeat([0, 1], 20)
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1e5, shape=2)
        pm.Poisson("y", pm.math.exp(a[group]), observed=np.where(group == 0, 2, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        step = step_of(model, kernel="metropolis", anchor={"a": np.array([0.7, -500.0])})
    (rows,) = step.target.data.parts
    np.testing.assert_array_equal(np.isinf(rows.constants[:, ROW.near]), group == 1)


class Promising(JaakkolaJordan):
    """A bound that promises more than all others."""

    def expected_rows(self, problem, stride):
        return 0.0


def test_a_registered_bound_is_chosen_until_it_is_taken_back():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=50), rng.integers(0, 2, size=50)
    before, bound = BOUNDS.copy(), Promising()
    register_bound(bound)
    try:
        with pm.Model():
            pm.Bernoulli("y", logit_p=pm.Normal("beta", 0.0, 1.0) * x, observed=y)
            (chosen,) = FireflyHMC().bounds
        assert chosen is bound
    finally:
        unregister_bound(bound)
    assert before == BOUNDS
    with pytest.raises(ValueError, match=r"bound .*write Promising\(\)"):
        register_bound(Promising)
    with pytest.raises(ValueError, match="this bound is not registered; those that are: Jaakkola"):
        unregister_bound(Promising())


A, B, C = 3.0, -5.0, 0.25


def allowed(gap):
    """Rounding of a graph of three numbers, in machine epsilons."""
    a, b, c = pt.dvectors("a", "b", "c")
    graph = rounding_error(
        gap(*(pt.exp(pt.log(x)) if x is not b else -pt.exp(-x) for x in (a, b, c)))
    )
    mode = pytensor.compile.Mode(linker="py", optimizer=None)
    function = pytensor.function([a, b, c], graph, mode=mode, on_unused_input="ignore")
    (found,) = function(np.array([A]), np.array([-np.log(-B)]), np.array([C]))
    return found / (EPSILONS * np.finfo(float).eps)


@pytest.mark.parametrize(
    ("gap", "size"),
    [
        (lambda a, b, c: a + b, A - B),
        (lambda a, b, c: a - b - c, A - B + C),
        (lambda a, b, c: (a + b) * (a + c), (A - B) * (A + C)),
        (lambda a, b, c: (a + b) / b, (A - B) / -B),
        (lambda a, b, c: pt.sqr(a + b), (A - B) ** 2),
        (lambda a, b, c: -(a + b), A - B),
        (lambda a, b, c: pt.switch(pt.gt(a, 0.0), a + b, c), A - B),
        (lambda a, b, c: pt.exp(a), np.exp(A)),
    ],
)
def test_sizes_of_terms_add_up(gap, size):
    assert allowed(gap) == pytest.approx(1.0 + size, rel=1e-12)


NAMES = ["y", "k"]


def test_one_for_all_or_one_for_each():
    jj, taylor = JaakkolaJordan(), Taylor()
    assert settings_of(jj, NAMES) == [jj, jj]
    assert settings_of("auto", NAMES) == ["auto", "auto"]
    assert settings_of({"k": taylor, "y": jj}, NAMES) == [jj, taylor]
    assert settings_of({"k": taylor}, NAMES) == ["auto", taylor]
    for none in (None, {"k": None, "y": None}):
        assert all(isinstance(each, AllRows) for each in settings_of(none, NAMES))


def test_none_is_for_all():
    with pytest.raises(ValueError, match="for all likelihoods or for none, not for 'k' alone"):
        settings_of({"k": None, "y": Taylor()}, NAMES)
    with pytest.raises(ValueError, match="bound= names 'z'"):
        settings_of({"z": Taylor()}, NAMES)
