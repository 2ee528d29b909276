"""Kernels touch nothing beyond their arrays: each ends, or begins, at a page that kills.

Numba's own checks of indices (`test_bounds_checking`) see those of arrays; here nothing is compiled
otherwise, and what reads by address or without a count is seen, too.
"""

import signal
import sys

import numpy as np
import pytest

from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice, JaakkolaJordan, Taylor
from pymc_flymc.kernels.native import address_of_generator
from tests.support.data import logistic_rows
from tests.support.guarded import guarded, signal_of
from tests.support.models import intercepts_model, logistic_model
from tests.support.patches import any_size
from tests.support.steps import step_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect")

LOGISTIC = logistic_model(*logistic_rows(60, [-0.5, 1.0]))
STEPS = {
    "metropolis": (LOGISTIC, FireflyMH, {"bound": JaakkolaJordan(), "kernel": "metropolis"}),
    "joint": (LOGISTIC, FireflyMH, {"bound": Taylor(), "kernel": "joint"}),
    "surrogate": (LOGISTIC, FireflyMH, {"bound": Taylor(), "kernel": "surrogate"}),
    "hamiltonian": (LOGISTIC, FireflyHMC, {"bound": JaakkolaJordan()}),
    "langevin": (LOGISTIC, FireflyMALA, {"bound": JaakkolaJordan()}),
    "slice": (LOGISTIC, FireflySlice, {"bound": JaakkolaJordan()}),
    "local": (intercepts_model(), FireflyMH, {"kernel": "local"}),
}
#: What the quick suite runs; the fault that is seen is of the same chain.
QUICK = ("metropolis", True)


@pytest.fixture(scope="module")
def chains():
    found = {}

    def chain(name):
        if name not in found:
            model, cls, settings = STEPS[name]
            with any_size():
                step = step_of(model, cls, transitions=1, **settings)
            step.setup_chain(np.random.default_rng(0), 100, 1)
            step.tune, point = True, model.initial_point()
            for _ in range(100):
                point, _ = step.step(point)
            found[name] = step.chain
        return found[name]

    return chain


@pytest.mark.parametrize(
    ("name", "at_end"),
    [
        pytest.param(name, end, marks=() if (name, end) == QUICK else pytest.mark.slow)
        for name in STEPS
        for end in (True, False)
    ],
)
def test_no_page_beyond_an_array_is_touched(chains, name, at_end):
    chain, rng = chains(name), np.random.default_rng(1)

    def run():
        arguments = guarded(chain._arguments(), at_end)
        chain._run(address_of_generator(rng), 0, *arguments)  # a start
        chain._run(address_of_generator(rng), 2000, *arguments)
        assert arguments[3].theta.any()

    assert signal_of(run) == 0


def test_one_row_less_is_seen(chains):
    chain, rng = chains("metropolis"), np.random.default_rng(1)

    def run():
        posterior, *rest = chain._arguments()
        rows = posterior.rows
        fewer = rows._replace(constants=rows.constants[:-1])
        chain._run(
            address_of_generator(rng), 0, *guarded((posterior._replace(rows=fewer), *rest), True)
        )

    assert signal_of(run) == signal.SIGSEGV
