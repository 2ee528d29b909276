"""What native code is handed of the wrong type or length is an error at the border, no crash."""

import sys

import numpy as np
import pytest

from pymc_flymc import FireflyHMC, FireflyMH, JaakkolaJordan, Taylor
from pymc_flymc.kernels.native import address_of_generator
from tests.support.data import logistic_rows
from tests.support.guarded import guarded, signal_of
from tests.support.models import logistic_model
from tests.support.steps import step_of

MODEL = logistic_model(*logistic_rows(60, [-0.5, 1.0]))
STEPS = {
    "joint": (FireflyMH, {"bound": Taylor(), "kernel": "joint"}),
    "hamiltonian": (FireflyHMC, {"bound": JaakkolaJordan()}),
}


@pytest.fixture(scope="module", params=STEPS)
def step(request):
    cls, settings = STEPS[request.param]
    return step_of(MODEL, cls, **settings)


def changed(record, path, change):
    """Copy of nested tuples with one array changed."""
    if not path:
        return change(record)
    members = list(record)
    members[path[0]] = changed(members[path[0]], path[1:], change)
    return type(record)(*members) if hasattr(record, "_fields") else tuple(members)


def arrays(record, path=()):
    """Yield where there are arrays, and the arrays."""
    for i, each in enumerate(record):
        if isinstance(each, np.ndarray):
            yield (*path, i), each
        elif isinstance(each, tuple):
            yield from arrays(each, (*path, i))


CHANGES = {
    "floats of half the size": lambda x: np.zeros(
        x.shape, np.float64 if x.itemsize == 4 else np.float32
    ),
    "another kind of the same size": lambda x: x.view(
        {1: np.int8, 4: np.float32, 8: np.int64 if x.dtype.kind == "f" else np.float64}[x.itemsize]
    ),
    "one axis more": lambda x: x[..., None],
    "none": lambda x: None,
    "a list": lambda x: x.tolist(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_kernels_refuse_arrays_of_other_types(step, change):
    chain, rng = step.sampler.new_chain(), np.random.default_rng(0)
    kernel = step.target.compiled_kernel()
    arguments, n_refused = chain._arguments(), 0
    for path, _ in arrays(arguments):
        with pytest.raises((TypeError, ValueError)):
            kernel(address_of_generator(rng), 0, *changed(arguments, path, CHANGES[change]))
        n_refused += 1
    assert n_refused > 20
    kernel(address_of_generator(rng), 0, *arguments)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mprotect")
def test_densities_refuse_arrays_of_other_lengths(step):
    """Or do with those that are longer; none is read or written past its end."""
    target, d = step.target, len(step.target.geometry.centre)
    statistics, n_slopes = target.statistics, target.n_slopes

    def call(theta, statistics, w):
        return target.density(*guarded((theta, statistics, w), True))

    def run():
        assert np.isfinite(call(np.zeros(d), statistics, np.empty(n_slopes)))
        shorter = [(np.zeros(n), statistics, np.empty(n_slopes)) for n in (0, 1, d + 1)]
        shorter += [(np.zeros(d), statistics[:-k], np.empty(n_slopes)) for k in (1, 2, 5)]
        shorter += [(np.zeros(d), statistics, np.empty(n)) for n in range(d)]
        for arguments in shorter:
            with pytest.raises((ValueError, IndexError)):
                call(*arguments)

    assert signal_of(run) == 0
