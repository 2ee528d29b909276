"""What would help is said when PyMC says that chains have not converged, and only then."""

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import wait

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import report
from pymc_flymc.steps import running
from pymc_flymc.steps.processes import watch_chains
from tests.support.data import logistic_rows
from tests.support.models import logistic_model
from tests.support.steps import logistic_step, sample, step_of


def said(caplog):
    """Lines of the log, after those of the set-up, that are warnings of ours."""
    return [
        record.getMessage().removeprefix("Firefly: ")
        for record in caplog.records
        if record.name == "pymc.flymc" and record.levelno >= logging.WARNING
    ]


@pytest.fixture(scope="module")
def slow():
    """A step that moves a little in each draw."""
    model = logistic_model(*logistic_rows(2_000, 3))
    return model, step_of(model, kernel="metropolis", transitions=1)


@pytest.mark.parametrize("cores", [1, 2])
def test_it_is_what_the_report_says_and_is_said_once(slow, caplog, cores):
    idata = sample(*slow, draws=120, cores=cores, compute_convergence_checks=True)
    (line,) = said(caplog)
    assert line == report(idata).advice[0] and ("too few" in line or "not converged" in line)


def test_healthy_runs_are_silent(caplog):
    X, y = logistic_rows(2_000, 3)
    model, step = logistic_step(X, y, kernel="joint")
    sample(model, step, draws=400, tune=100, compute_convergence_checks=True)
    assert not said(caplog)
    assert any(isinstance(h, running._Advice) for h in logging.getLogger("pymc").handlers)


def test_nothing_is_said_unless_pymc_checks(slow, caplog):
    sample(*slow, draws=120)
    assert not said(caplog)


def test_nothing_is_said_of_other_steps(slow, caplog):
    sample(*slow, draws=120)  # from here on PyMC's warnings are looked at
    with pm.Model() as model:
        x = pm.Normal("x")
        step = pm.Metropolis([x], S=np.array([1e-6]), tune=False)
    sample(model, step, draws=120, compute_convergence_checks=True)
    assert "effective sample size" in caplog.text and not said(caplog)


def test_draws_are_not_lost_for_an_error(slow, monkeypatch, capsys):
    def fail(idata):
        raise ValueError("no advice today")

    monkeypatch.setattr(running, "Run", fail)
    idata = sample(*slow, draws=120, compute_convergence_checks=True)
    assert idata.posterior.sizes["draw"] == 120
    assert "no advice today" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_chain_is_named_and_nothing_hangs(shared, caplog):
    model, step = shared()

    def kill(trace, draw):
        if draw.chain == 1 and draw.draw_idx == 100:
            (process,) = (p for p in multiprocessing.active_children() if p.name[-1] == "1")
            os.kill(process.pid, signal.SIGKILL)

    began = time.monotonic()
    with pytest.raises((ConnectionResetError, EOFError)):
        sample(model, step, draws=10**6, cores=2, callback=kill)
    while "was killed" not in caplog.text and time.monotonic() < began + 30.0:
        time.sleep(0.01)
    assert "the process worker_chain_1 was killed (SIGKILL)" in caplog.text
    assert "worker_chain_0" not in caplog.text


def test_chains_that_end_say_nothing(shared, caplog):
    model, step = shared()
    sample(model, step, cores=2)
    time.sleep(0.2)
    assert "was killed" not in caplog.text


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="looks at a process that has ended")
def test_who_joins_a_chain_learns_that_it_has_ended():
    """A system tells that once: a thread that asks as well made ended chains seem alive."""
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=os.getpid, name="worker_chain_0", daemon=True)
    before = set(threading.enumerate())
    process.start()
    watch_chains()
    (watcher,) = set(threading.enumerate()) - before
    wait([process.sentinel])
    watcher.join(0.2)
    assert os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT) is not None
    process.join()
    assert process.exitcode == 0
    watcher.join(30.0)
    assert not watcher.is_alive()
