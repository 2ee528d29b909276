"""Rows that are kept bright, and the least rates of the others."""

import warnings

import numpy as np
import pymc as pm

from pymc_flymc.bounds.taylor import keep_bright
from pymc_flymc.kernels.dark_rates import FLOOR
from pymc_flymc.kernels.layout import ROW
from tests.support.steps import step_of


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
