"""Functions of arrays are those of numbers, and are what checks evaluate."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.scalar.math import log1mexp, softplus

from pymc_flymc.agreement import rounding as arrays
from pymc_flymc.agreement.rounding import RoundedFunction
from pymc_flymc.graphs.gammas import LogGamma, LogRisingOfExp, log_gamma, log_rising_of_exp

WIDE = np.concatenate([np.linspace(-60.0, 60.0, 241), [-700.0, -1e-9, 0.0, 1e-9, 700.0]])
COUNTS = np.array([0.0, 1.0, 2.0, 11.0, 12.0, 13.0, 40.0, 1e6])
A, K = (each.ravel() for each in np.meshgrid(WIDE, COUNTS))


@pytest.mark.parametrize(
    ("of_arrays", "of_numbers", "arguments"),
    [
        (arrays.softplus, softplus, (WIDE,)),
        (arrays.log1mexp, log1mexp, (WIDE[WIDE < 0.0],)),
        (arrays.log_gamma, LogGamma(0), (np.concatenate([[0.0], np.exp(0.5 * WIDE)]),)),
        (arrays.log_rising_of_exp, LogRisingOfExp(0), (A, K)),
    ],
)
def test_each_number(of_arrays, of_numbers, arguments):
    with np.errstate(all="ignore"):
        found = of_arrays(*arguments)
        expected = np.array([of_numbers.impl(*each) for each in zip(*arguments, strict=True)])
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    error = np.abs(found[finite] - expected[finite])
    assert np.all(error <= 64 * np.finfo(float).eps * (1.0 + np.abs(expected[finite])))


def test_checks_evaluate_arrays(monkeypatch):
    """Number by number a million rows would take a minute."""

    def one_by_one(*arguments):
        raise AssertionError("evaluated number by number")

    for each in LogGamma, LogRisingOfExp:
        monkeypatch.setattr(each, "impl", one_by_one)
    x, k = pt.dvector("x"), pt.dvector("k")
    function = RoundedFunction([x, k], [log_gamma(x) + log_rising_of_exp(x, k)])
    assert function(np.ones(5), np.arange(5.0), seed=1) is not None
