"""Chains in one process and in several: seeds, start methods, pickles."""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from pymc_flymc import threads
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import SCHEMES, drive, identical, sample, step_of


def test_same_seed_same_draws_whatever_the_cores(shared):
    model, step = shared()
    one = sample(model, step, cores=1)
    identical(one, sample(model, step, cores=2))
    identical(one, sample(model, step, cores=1))  # nothing stays behind in the step
    other = sample(model, step, random_seed=12)
    assert not np.array_equal(one.posterior["beta"].values, other.posterior["beta"].values)
    chains = one.posterior["beta"].values
    assert not np.array_equal(chains[0], chains[1])


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_workers_that_share_nothing_make_the_same_draws(shared, method, caplog):
    """As where Python forks no more: the step comes as a pickle, and its rows as a file."""
    model, step = shared()
    with caplog.at_level(logging.INFO, "pymc"):
        several = sample(model, step, cores=2, mp_ctx=method)
    assert "Multiprocess sampling" in caplog.text, "PyMC fell back to one process"
    identical(sample(model, step, cores=1), several)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_forks_after_threads(shared, monkeypatch):
    """Those of set-up and of BLAS, which have ended their work: chains neither hang nor change."""
    model, step = shared()
    expected = sample(model, step, cores=1)
    monkeypatch.setattr("numba.core.config.NUMBA_NUM_THREADS", 5)
    x = np.random.default_rng(0).normal(size=(600, 600))
    assert len(list(threads.in_order(lambda i: x @ x, range(12), 12))) == 12
    # (While another thread multiplies matrices OpenBLAS may never let a process fork.)
    identical(expected, sample(model, step, cores=2, mp_ctx="fork"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_chains_are_independent_of_earlier_ones(shared, scheme):
    model, step = shared(scheme)
    point = model.initial_point()

    def run(seed):
        return drive(step, point, tune=30, draws=30, seed=seed)

    alone = run(2)
    run(1)
    after = run(2)
    np.testing.assert_array_equal(alone[0], after[0])
    for key in alone[1]:
        np.testing.assert_array_equal(alone[1][key], after[1][key])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_start_methods(method, tmp_path):
    """As above, with data that have changed since the step was built, before it has sampled.

    No file stays behind.
    """
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            sys.path.insert(0, {str(Path(__file__).parents[2])!r})
            import numpy as np
            import pymc as pm
            from tests.support.data import logistic_rows
            from tests.support.steps import sample, step_of

            if __name__ == "__main__":
                X, y = logistic_rows(400)
                with pm.Model() as model:
                    beta = pm.Normal("beta", 0.0, 1.0, shape=3)
                    observed = pm.Data("observed", y)
                    pm.Bernoulli("y", logit_p=X @ beta, observed=observed)
                step = step_of(model)
                with model:
                    pm.set_data({{"observed": 1 - y}})
                two = sample(model, step, cores=2, mp_ctx={method!r})
                one = sample(model, step_of(model), cores=1)
                for name in ("n_bright", "likelihood_queries"):
                    a, b = one.sample_stats[name].values, two.sample_stats[name].values
                    np.testing.assert_array_equal(a, b)
                a, b = one.posterior["beta"].values, two.posterior["beta"].values
                np.testing.assert_array_equal(a, b)
                print("as one")
            """
        )
    )
    folder = tmp_path / "tmp"
    folder.mkdir()
    result = subprocess.run(
        [sys.executable, str(script)],
        env=dict(os.environ, TMPDIR=str(folder)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0 and "as one" in result.stdout, result.stdout + result.stderr
    assert "Multiprocess sampling" in result.stderr, "PyMC fell back to one process"
    assert not list(folder.glob("pymc-flymc-*"))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a zombie has ended; nobody has asked for its exit code


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks processes up in /proc")
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_chains_end_with_a_parent_that_is_killed(method, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing, os, signal, sys
            sys.path.insert(0, {str(Path(__file__).parents[2])!r})
            from pymc_flymc import JaakkolaJordan
            from tests.support.data import logistic_rows
            from tests.support.models import logistic_model
            from tests.support.steps import sample, step_of

            def kill(trace, draw):
                if draw.draw_idx == 100:
                    print(*(p.pid for p in multiprocessing.active_children()), flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)

            if __name__ == "__main__":
                model = logistic_model(*logistic_rows(400))
                step = step_of(model, bound=JaakkolaJordan(xi=1.5, slack=0.0))
                sample(model, step, draws=10**6, cores=2, mp_ctx={method!r}, callback=kill)
            """
        )
    )
    # Into a file: chains that go on would keep a pipe open.
    with (tmp_path / "chains").open("w") as out:
        result = subprocess.run([sys.executable, str(script)], stdout=out, timeout=300)
    assert result.returncode == -signal.SIGKILL
    chains = [int(pid) for pid in (tmp_path / "chains").read_text().split()]
    try:
        assert len(chains) == 2
        end = time.monotonic() + 30.0
        while any(map(is_running, chains)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(map(is_running, chains))
    finally:
        for pid in filter(is_running, chains):
            os.kill(pid, signal.SIGKILL)


def test_pickle_is_small_and_its_file_goes_with_the_step(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sizes = {}
    step_of(
        logistic_model(*logistic_rows(100))
    )  # graphs that something is compiled from take notes of that
    for n in (400, 40_000):
        step = step_of(logistic_model(*logistic_rows(n)))
        sizes[n] = len(cloudpickle.dumps(step))
        files = set(tmp_path.glob("pymc-flymc-*"))
        assert files, "the rows travel as files"
        cloudpickle.dumps(step)
        assert set(tmp_path.glob("pymc-flymc-*")) == files, "one copy, however many pickles"
        del step
        assert not set(tmp_path.glob("pymc-flymc-*"))
    # Lengths of integers may differ by a few bytes; the data of 40,000 rows are 1.9 MB.
    assert abs(sizes[40_000] - sizes[400]) < 200
    assert sizes[40_000] < 100_000
