"""Native entries, each run for a few draws: a script for `tests/kernels/test_bounds_checking.py`.

Numba is told by its environment to check each index of each array.
"""

import sys

import numpy as np
import pymc as pm
from numba.core.config import BOUNDSCHECK

from pymc_flymc import FireflyHMC, FireflyMALA, FireflySlice, JaakkolaJordan, Taylor
from pymc_flymc.steps import step as step_module
from pymc_flymc.target import target
from tests.support.data import logistic_rows
from tests.support.models import logistic_model, softmax_model
from tests.support.out_of_core import logistic, step_elsewhere, written_on_head
from tests.support.steps import drive, step_of


def groups_model():
    """Random intercepts, whose bound has a radius for each."""
    rng = np.random.default_rng(0)
    group, y = np.repeat(np.arange(6), 8), rng.poisson(1.5, 48)
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 0.5, shape=6)
        pm.Poisson("y", pm.math.exp(a[group]), observed=y)
    return model


def steps():
    """Yield models and steps that use all kernels."""
    X, y = logistic_rows(60, [-0.5, 1.0])
    logistic_rows_model = logistic_model(X, y)
    for kernel in ("metropolis", "joint", "surrogate", "hamiltonian"):
        yield logistic_rows_model, step_of(logistic_rows_model, kernel=kernel)
    for cls in (FireflyMALA, FireflySlice):
        yield logistic_rows_model, step_of(logistic_rows_model, cls)
    yield logistic_rows_model, step_of(logistic_rows_model, FireflyHMC, bound=Taylor())
    groups = groups_model()
    yield groups, step_of(groups, FireflyHMC)
    softmax = softmax_model(X, np.arange(60) % 3, 3, reference=True)
    yield softmax, step_of(softmax, FireflyHMC)
    data = {"X": X, "y": y}
    model = written_on_head(data, logistic)
    yield model, step_elsewhere(model, data)


class FewerColumns(JaakkolaJordan):
    """A bound that prepares fewer constants than it reads."""

    def prepare(self, problem, log_factor):
        prepared = super().prepare(problem, log_factor)
        return type(prepared)(prepared.statistics, prepared.constants[:, :1], prepared.bright)


def reads_past_its_array():
    """Let a bound through that the package refuses, and see numba find what it reads."""
    target.check_preparation = step_module.check_declared = lambda *arguments: None
    model = logistic_model(*logistic_rows(60, [-0.5, 1.0]))
    try:  # what was compiled is compared, which reads all constants
        step_of(model, FireflyHMC, bound=FewerColumns())
    except IndexError as error:
        return "out of bounds" in str(error)
    return False


if __name__ == "__main__":
    assert BOUNDSCHECK, "run with NUMBA_BOUNDSCHECK=1"
    for model, step in steps():
        drive(step, model.initial_point(), tune=20, draws=20)
        print(type(step).__name__, "has read no array past its end")
    if not reads_past_its_array():
        sys.exit("numba did not find an index out of bounds that there is")
    print("all native entries stay within their arrays")
