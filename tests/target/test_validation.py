"""Bounds that say another size than they prepare are refused: kernels would read past arrays."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_flymc.steps.setup
from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.kernels.native import LOG_FACTOR, NativeFunction
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import step_of

MODEL = logistic_model(*logistic_rows(50, [-0.5, 1.0]))


@pytest.fixture(autouse=True)
def without_checks_before(monkeypatch):
    """Bounds of these tests are let through that steps check before they use them."""
    monkeypatch.setattr("pymc_flymc.steps.setup.check_declared", lambda *arguments: None)


class Altered(JaakkolaJordan):
    """A bound whose preparation is altered by a function."""

    def __init__(self, alter):
        super().__init__()
        self.alter = alter

    def prepare(self, problem, log_factor):
        return self.alter(super().prepare(problem, log_factor))


def spoilt(array, value):
    array = array.copy()
    array.flat[3] = value
    return array


JJ = "the Jaakkola-Jordan bound on bernoulli-logit likelihoods"
ALTERED = {
    f"the table of constants of {JJ} has 1 columns, and n_constants says 2": lambda p: replace(
        p, constants=p.constants[:, :1]
    ),
    f"the table of constants of {JJ} has 49 rows, and there are 50": lambda p: replace(
        p, constants=p.constants[:-1]
    ),
    "constants of .* must be an array of 2 axes of float64: float32": lambda p: replace(
        p, constants=p.constants.astype(np.float32)
    ),
    f"the table of constants of {JJ} must be finite: it holds nan": lambda p: replace(
        p, constants=spoilt(p.constants, np.nan)
    ),
    f"the statistics of {JJ} must be finite": lambda p: replace(
        p, statistics=spoilt(p.statistics, np.inf)
    ),
    f"the statistics of {JJ} must be an array of 1 axes of float64: float64": lambda p: replace(
        p, statistics=p.statistics[None]
    ),
    f"brightness of {JJ} have 51 rows, and there are 50": lambda p: replace(
        p, bright=np.append(p.bright, p.bright[:1])
    ),
    f"brightness of {JJ} are not between 0 and 1": lambda p: replace(p, bright=p.bright + 1.0),
}


@pytest.mark.parametrize("message", ALTERED)
def test_what_a_bound_prepares_is_of_the_size_that_it_says(message):
    with pytest.raises(ValueError, match=message):
        step_of(MODEL, FireflyHMC, bound=Altered(ALTERED[message]))


class MoreConstants(JaakkolaJordan):
    """A bound that says more constants than its rows have."""

    def n_constants(self, likelihood):
        return 3


def test_log_factors_are_not_called_with_other_widths():
    with pytest.raises(ValueError, match=r"reads \(1, 3, 0\) .* is given \(1, 2, 0\)") as raised:
        step_of(MODEL, FireflyHMC, bound=MoreConstants())
    (note,) = raised.value.__notes__
    assert note == f"while {JJ} was prepared for the rows of 'y'"


class SharesMore(JaakkolaJordan):
    """A bound whose rows share a number, of which it does not tell."""

    shared = pt.zeros((1,))

    def collapsed(self, likelihood, w, statistics, n_coefficients):
        total, _ = super().collapsed(likelihood, w, statistics, n_coefficients)
        return total, self.shared


class OfUnknownLength(SharesMore):
    shared = pt.vector("shared")


class NoSum(JaakkolaJordan):
    def collapsed(self, likelihood, w, statistics, n_coefficients):
        return w, pt.zeros((0,))


SHARED = {
    "returns shared numbers of length 1, and n_shared says 0": SharesMore(),
    "returns shared numbers of a length that is not known, and n_shared says 0": OfUnknownLength(),
    "returns a sum that is not a scalar graph": NoSum(),
}


@pytest.mark.parametrize("message", SHARED)
def test_what_rows_share_is_of_the_length_that_the_bound_says(message):
    with pytest.raises(ValueError, match=f"{JJ}: .*{message}"):
        step_of(MODEL, FireflyHMC, bound=SHARED[message])


class Negative(Taylor):
    """A bound whose rates are negative."""

    def prepare(self, problem, log_factor, keep=1.0):
        prepared = super().prepare(problem, log_factor)
        return replace(prepared, constants=-prepared.constants)


class WithoutPowers(Taylor):
    """A bound whose rows share no powers of a radius."""

    n_shared = 0
    n_common = 2


def test_fresh_brightness_is_drawn_from_rates():
    with pytest.raises(ValueError, match="first 2 constants, are negative"):
        step_of(MODEL, FireflyMH, bound=Negative(), kernel="joint")
    with pytest.raises(ValueError, match=r"has 0 shared numbers, and .* rates, of 2 at least"):
        step_of(MODEL, FireflyMH, bound=WithoutPowers(), kernel="joint")


def test_statistics_too_short_for_a_quadratic(monkeypatch):
    """Their length is the bound's own affair; native code does not read past them."""
    bound = Altered(lambda p: replace(p, statistics=p.statistics[:-1]))
    # When a step is built, bounds of somebody's own are evaluated in Python.
    for check in ("check_declared", "check_compiled"):
        monkeypatch.setattr(pymc_flymc.steps.setup, check, lambda *_: None)
    with pytest.raises(ValueError, match="statistics of a quadratic are shorter"):
        step_of(MODEL, FireflyHMC, bound=bound)


def test_functions_say_what_they_read():
    def sums(eta, constants, shared, out):
        for i in range(out.shape[0]):
            out[i] = eta[i, 0] + constants[i, 1] + shared[0]

    function = NativeFunction(sums, LOG_FACTOR, (1, 2, 1))
    out = np.empty(3)
    function(np.ones((3, 1)), np.ones((3, 2)), np.ones(1), out)
    np.testing.assert_array_equal(out, 3.0)
    with pytest.raises(ValueError, match=r"is given \(1, 2, 0\)"):
        function(np.ones((3, 1)), np.ones((3, 2)), np.ones(0), out)


def test_shapes_that_a_density_returns():
    """A model's graph of coefficients of another length is not written past a chain's."""
    with MODEL:
        step = FireflyHMC(bound=JaakkolaJordan())
    theta = np.zeros(2)
    for size in (1, 3):
        with pytest.raises(ValueError, match="do not have the length of a chain's"):
            step.target.density(theta, step.target.statistics, np.empty(size))
    assert np.isfinite(step.target.density(theta, step.target.statistics, np.empty(2)))


def test_data_that_has_changed_is_checked_again():
    X, y = logistic_rows(50, [-0.5, 1.0])
    with pm.Model() as model:
        data = pm.Data("X", X)
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=data @ beta, observed=y)
        wrong = [False]
        step = FireflyHMC(
            bound=Altered(lambda p: replace(p, bright=p.bright + 1.0) if wrong[0] else p)
        )
    wrong[0] = True
    data.set_value(X + 0.1)
    with model, pytest.raises(ValueError, match="are not between 0 and 1"):
        pm.sample(step=step, progressbar=False)
