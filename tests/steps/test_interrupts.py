"""Interrupts end sampling with the draws made so far, or with KeyboardInterrupt."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from pymc_flymc.steps.processes import Interrupts, interruptible

SCRIPT = Path(__file__).with_name("interrupted.py")
#: A step for each kernel.
STEPS = {
    "metropolis": ("FireflyMH", "dict(bound=JaakkolaJordan())"),
    "joint": ("FireflyMH", "dict(bound=Taylor())"),
    "chosen": ("FireflyMH", "{}"),
    "hamiltonian": ("FireflyHMC", "{}"),
    "langevin": ("FireflyMALA", "{}"),
    "slice": ("FireflySlice", "{}"),
}


def outcomes(name, times, longest, cores=1):
    """What came of interrupts at random moments, one after the other in a process."""
    given = times, longest, 0, cores
    command = [sys.executable, str(SCRIPT), *STEPS[name], *map(str, given)]
    # In a session of its own: nobody else gets what all of its processes get.
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=600, start_new_session=True
    )
    assert result.returncode == 0, f"{result.returncode}\n{result.stdout}{result.stderr}"
    return [line.split(maxsplit=1)[1] for line in result.stdout.splitlines()]


def check(found, times):
    assert len(found) == times
    assert set(found) <= {"some draws", "tuning", "KeyboardInterrupt"}, found


@pytest.mark.skipif(os.name != "posix", reason="sends itself signals by a shell")
def test_few_interrupts():
    found = outcomes("chosen", 3, 2.0)
    # Python drops what is raised in a finalizer.
    kept = [each for each in found if each != "ignored"]
    assert len(kept) >= 2
    check(kept, len(kept))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends itself signals by a shell")
@pytest.mark.parametrize("name", STEPS)
def test_many_interrupts(name):
    found = outcomes(name, 20, 4.0)
    check(found, 20)
    assert "some draws" in found and "KeyboardInterrupt" in found


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends itself signals by a shell")
@pytest.mark.parametrize("name", ["metropolis", "joint", "hamiltonian", "slice"])
def test_interrupts_of_chains_in_processes_of_their_own(name):
    """All processes get them: none goes on, and nothing hangs."""
    found = outcomes(name, 10, 4.0, cores=2)
    # Python drops what is raised in a finalizer, and there are some where PyMC has the word.
    lost = [each for each in found if each in ("ignored", "PyMC's own")]
    assert lost.count("ignored") <= 1
    check([each for each in found if each not in lost], 10 - len(lost))
    assert "some draws" in found


@pytest.fixture
def handled():
    """Interrupts that raise KeyboardInterrupt, as in a program of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    one = Interrupts()
    yield one
    signal.signal(signal.SIGINT, before)


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_is_raised_at_once_and_the_handler_is_given_back(handled):
    handled.begin(10)
    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_is_put_off_where_native_code_does_not_look(handled, monkeypatch):
    def helper():
        interrupt()
        return "done"

    monkeypatch.setattr("pymc_flymc.compat.numba.UNCHECKED", {helper.__code__})
    handled.begin(10)
    assert (lambda: helper())() == "done"
    end = time.monotonic() + 10.0
    with pytest.raises(KeyboardInterrupt):
        while time.monotonic() < end:
            pass


def test_is_the_cause_of_what_it_has_broken(handled):
    @interruptible
    def broken():
        try:
            interrupt()
        except KeyboardInterrupt:
            raise SystemError from None

    with pytest.raises(KeyboardInterrupt):
        broken()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_is_raised_again_where_a_callback_has_lost_it(handled):
    class Mortal:
        pass

    def lose():
        mortal = Mortal()
        return weakref.ref(mortal, lambda _: interrupt())

    handled.begin(10)
    lost = lose()
    assert lost() is None
    with pytest.raises(KeyboardInterrupt):
        handled.check()
    handled.check()
    with pytest.raises(KeyboardInterrupt):
        interruptible(lose)()


def test_the_handler_is_given_back_with_the_last_draw(handled):
    handled.begin(2)
    handled.check()
    assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    other = pickle.loads(pickle.dumps(handled))
    other.begin(1)  # that of another step, or of the next chain
    other.check()
    handled.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_that_raise_nothing_stay_as_they_are(handled):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interruptible(interrupt)()
    assert interruptible(lambda: signal.getsignal(signal.SIGINT))() is signal.SIG_IGN
    noted = []
    signal.signal(signal.SIGINT, lambda *_: noted.append(1))
    interruptible(interrupt)()
    assert noted == [1]


def test_other_threads_have_no_say(handled):
    thread = threading.Thread(target=handled.begin)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
