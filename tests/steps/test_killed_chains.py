"""A chain's process that is killed: an error, at once, and its name."""

import multiprocessing
import os
import signal
import sys
import time

import pytest

from tests.support.steps import sample


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
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
