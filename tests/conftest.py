"""Fixtures of all tests."""

import gc
import logging

import numpy as np
import pytensor
import pytest
import scipy.linalg  # noqa: F401  # has a BLAS of its own, of which the threads are limited
from hypothesis import is_hypothesis_test, settings
from threadpoolctl import threadpool_limits

import pymc_flymc.sampling.choice
from pymc_flymc import FireflyMH
from pymc_flymc.graphs import memoise
from pymc_flymc.kernels.geometry import Geometry
from pymc_flymc.regression.derivatives import RowDerivatives
from pymc_flymc.sampling.adaptation import KERNELS
from tests.support import patches
from tests.support.data import load_data
from tests.support.llvm_modules import find_modules_by_address

# Time is no criterion: the first example may compile.
settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("new examples", deadline=None)


def seeks_examples(config):
    """Whether this is the slow suite, in which tests of properties seek new examples."""
    return config.option.markexpr == "slow"


def pytest_configure(config):
    """Take the same examples everywhere in the quick suite (before any test takes settings)."""
    settings.load_profile("new examples" if seeks_examples(config) else "same examples")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark cases that are slow, and let tests of properties belong to the slow suite as well."""
    named, cases, quick = set(), set(), set()
    for item in items:
        for mark in item.iter_markers("slow_cases"):
            test = item.nodeid.removesuffix(f"[{item.callspec.id}]")
            named |= {(test, name) for name in mark.args}
            cases.add((test, item.callspec.id))
            if item.callspec.id in mark.args:
                item.add_marker("slow")
            if not item.get_closest_marker("slow"):
                quick.add(test)
        if seeks_examples(config) and is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("slow")
    if not any("::" in each for each in config.args):  # cases that are asked for may be all
        assert named <= cases, f"no such cases: {named - cases}"
        all_slow = {test for test, _ in named} - quick
        assert not all_slow, f"mark these tests, all of whose cases are slow: {all_slow}"


def pytest_sessionstart(session):
    """Spare what grows with all that a process has compiled."""
    find_modules_by_address()


#: Files of few tests that take long: begun last, as such files are, one process waits for another.
FIRST = (
    "tests/sweep/test_sweep.py",
    "tests/steps/test_other_steps.py",
)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a file to one process, and to one all that need the same factors and derivatives."""
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatIsCompiled(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            families = file.startswith(("tests/bounds/", "tests/likelihoods/"))
            return "families" if families else file

        def _assign_work_unit(self, node):
            for file in reversed(FIRST):
                if file in self.workqueue:
                    self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)

    return ByWhatIsCompiled(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def blas_of_one_thread():
    """Two processes run the tests: with more threads than cores, these wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def keep_all_compiled():
    """What a worker has compiled serves all its tests."""
    memoise.KEPT = 10_000


@pytest.fixture(scope="session", autouse=True)
def compile_kernels_once(worker_id, tmp_path_factory):
    """Compile the kernels with all processes: none compiles what another one has begun with.

    The second begins at the end of the list, with those for several likelihoods, which share parts.
    """
    if worker_id == "master":
        return
    kernels = [(spec, 1) for spec in KERNELS.values()]
    kernels += [(spec, 2) for spec in KERNELS.values() if spec.for_several]
    gc.disable()  # what the compiler leaves behind would be looked through a thousand times
    for spec, n_likelihoods in kernels[:: -1 if worker_id == "gw1" else 1]:
        name = f"compiled-{spec.name}-{n_likelihoods}"
        try:
            (tmp_path_factory.getbasetemp().parent / name).touch(exist_ok=False)
        except FileExistsError:
            continue
        spec.compiled(np.dtype(np.float64), n_likelihoods)
    gc.enable()


@pytest.fixture(autouse=True)
def pymc_in_python(request):
    """Compile no functions of PyMC's own or of tests; what steps compile is native, as ever.

    NUTS, with which slow tests compare, is as users have it. Where a node was made is not kept:
    to look that up takes a tenth of the time of all.
    """
    mode = "Mode" if request.node.get_closest_marker("slow") else "FAST_COMPILE"
    with pytensor.config.change_flags(mode=mode, traceback__limit=0):
        yield


@pytest.fixture(autouse=True)
def no_errors_of_pytensor(caplog):
    """PyTensor logs rewrites that fail, with a traceback, and goes on: users would see it."""
    yield
    of_pytensor = (each for each in caplog.get_records("call") if "pytensor" in each.name)
    assert not [each.getMessage() for each in of_pytensor if each.levelno >= logging.ERROR]


@pytest.fixture(scope="session")
def data():
    """``data(name)`` loads a real data set or skips the test."""
    return load_data


@pytest.fixture
def searches(monkeypatch):
    """Anchors found by the steps that a test builds; it needs no chains, so nothing is compiled."""
    found = []

    def record(*args, **kwargs):
        found.append(args[0].problems[0].anchor)
        raise _Found

    class _Found(Exception):
        pass

    monkeypatch.setattr(pymc_flymc.sampling.choice, "choose_sampler", record)

    def search(model, **settings):
        with model, pytest.raises(_Found):
            FireflyMH(**settings)
        return found.pop()

    return search


@pytest.fixture
def rows_read(monkeypatch):
    """Numbers of the rows whose derivatives a search has asked for, one for each time."""
    # The comparison with the model itself looks at all rows once, too.
    monkeypatch.setattr(pymc_flymc.steps.setup, "check_agreement", lambda *arguments: None)
    counts = []
    original = RowDerivatives.__call__

    def counting(self, arguments, y):
        counts.append(len(y))
        return original(self, arguments, y)

    monkeypatch.setattr(RowDerivatives, "__call__", counting)
    return counts


@pytest.fixture
def any_size():
    """Take likelihoods of any number of rows."""
    with patches.any_size():
        yield


@pytest.fixture(scope="module")
def geometry():
    """Three dense parameters and two diagonal ones, interleaved."""
    rng = np.random.default_rng(0)
    factor = np.tril(rng.normal(size=(3, 3))) + 2.0 * np.eye(3)
    return Geometry(
        rng.normal(size=5),
        np.array([0, 3, 4]),
        np.array([2, 1]),
        factor,
        np.array([0.5, 2.0]),
        rng.normal(size=(3, 2)),
    )


@pytest.fixture(scope="module")
def stretched(geometry):
    """The same, with two directions in which the posterior is wider."""
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 2)))[0].T
    return geometry._replace(
        directions=np.ascontiguousarray(directions), stretch=np.array([2.0, 0.7])
    )


@pytest.fixture
def structured():
    """Small problems take the way of large ones."""
    with patches.structured():
        yield
