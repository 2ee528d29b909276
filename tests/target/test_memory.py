"""Memory that many effects of groups take: in proportion to them, and never to their square."""

import multiprocessing
import resource
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyHMC, FireflyMH
from tests.support.data import log_sigmoid
from tests.support.steps import drive

GIGABYTE = 1 << 30


def status(field: str) -> int:
    """Return a size of this process in bytes: VmSize, the address space, or VmHWM, the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


@contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """Refuse to hand out more memory than so much beside what is in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (status("VmSize") + n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def random_intercepts(n_groups: int, n: int) -> pm.Model:
    rng = np.random.default_rng(9)
    group, x = rng.integers(0, n_groups, n, dtype=np.int32), rng.normal(size=(n, 2))
    group[:n_groups] = np.arange(n_groups)
    eta = 0.8 * rng.normal(size=n_groups)[group] + x @ [0.5, -0.3]
    y = (rng.random(n) < np.exp(log_sigmoid(eta))).astype(np.int8)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau", 1.0)
        a, beta = pm.Normal("a", mu, tau, shape=n_groups), pm.Normal("beta", shape=2)
        pm.Bernoulli("y", logit_p=a[group] + x @ beta, observed=y)
    return model


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.slow
@pytest.mark.parametrize("kind", [FireflyHMC, FireflyMH])
def test_no_matrix_of_all_effects(kind):
    """A dense one of 20,000 has 3.2 GB: in set-up, while tuning and after."""
    model = random_intercepts(20_000, 60_000)
    with at_most(GIGABYTE), model:
        step = kind()
        draws, _ = drive(step, model.initial_point(), tune=4, draws=2)
    assert np.all(np.isfinite(draws))


def build_large(n_groups: int, n: int) -> int:
    """Return the memory that building a step takes beside the model, after a small one."""
    for size in (n_groups // 100, n // 100), (n_groups, n):
        with random_intercepts(*size):
            before = status("VmRSS")
            FireflyHMC()
    return status("VmHWM") - before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_of_many_effects():
    """Tables of rows; for each effect a sketch of the covariance, 32 numbers, and pilot draws."""
    n_groups, n = 300_000, 3_000_000
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        taken = pool.submit(build_large, n_groups, n).result()
    assert taken < 130 * n + 1100 * n_groups
