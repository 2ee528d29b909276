"""A chain's process that is killed: an error, at once, and its name."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import wait

import pytest

from pymc_flymc.steps.processes import watch_chains
from tests.support.steps import sample


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
