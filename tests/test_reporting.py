"""The log: a line on what takes long while it does, in order, under the step's name."""

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_flymc import FireflyMH, reporting
from pymc_flymc.errors import warn
from pymc_flymc.graphs import compilation, memoise
from pymc_flymc.regression import derivatives, passes
from pymc_flymc.regression.design import Design
from pymc_flymc.regression.matrices import BLOCK, DenseRows
from pymc_flymc.reporting import COMPILING, COMPILING_KERNELS, count, doing, log, number_of
from pymc_flymc.reporting import reporting as report
from pymc_flymc.sampling.adaptation import HAMILTONIAN, HamiltonianAdaptation


class Clock:
    """A clock that stands still until it is told that time has passed, and timers by it."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def __call__(self):
        return self.now

    def timer(self, seconds, function, arguments):
        return Timer(self.timers, self.now + seconds, lambda: function(*arguments))

    def work(self, seconds):
        """Let time pass."""
        self.now += seconds
        for timer in [each for each in self.timers if each.due <= self.now]:
            self.timers.remove(timer)
            timer.function()


class Timer:
    def __init__(self, timers, due, function):
        self.timers, self.due, self.function = timers, due, function

    def start(self):
        self.timers.append(self)

    def cancel(self):
        if self in self.timers:
            self.timers.remove(self)

    def join(self):
        pass


@pytest.fixture
def clock(monkeypatch, caplog):
    clock = Clock()
    monkeypatch.setattr(reporting, "_clock", clock)
    monkeypatch.setattr(reporting, "Timer", clock.timer)
    caplog.set_level("INFO", "pymc.flymc")
    return clock


@cache
def design_of(n_rows):
    return Design(np.ones((n_rows, 1)), np.empty((0, 1)), False)


def read(n_rows, clock, seconds_a_block, stride=1):
    for _ in passes.iterate_rows(design_of(n_rows), np.zeros(n_rows), np.ones(1), stride):
        clock.work(seconds_a_block)


def test_quick_work_goes_without_a_word(clock, caplog):
    with report("Step"):
        for _ in range(3):
            with doing("this"):
                clock.work(1.5)
        read(6 * BLOCK, clock, 0.25)
    assert not caplog.messages


def test_slow_work_is_named_while_it_is_done(clock, caplog):
    with report("Step"):
        with doing("this"):
            clock.work(2.5)
            assert caplog.messages == ["Step: this"]
            clock.work(20.0)
        for _ in range(3):
            with doing("this"):
                clock.work(3.0)
        assert caplog.messages == ["Step: this"]  # once for each step
    with report("Other"), doing("this"):
        clock.work(3.0)
    assert caplog.messages == ["Step: this", "Other: this"]


def test_what_many_short_parts_take_is_said(clock, caplog):
    with report("Step"), doing("all"):
        for _ in range(3):
            with doing("this"):
                clock.work(1.0)
    assert caplog.messages == ["Step: all"]


def test_seconds_left_of_a_pass(clock, caplog):
    with report("Step"):
        read(50 * BLOCK, clock, 0.5)
        read(50 * BLOCK, clock, 0.25)
    left = [(1, 24), (1, 19), (1, 9), (2, 2)]  # after 5, 10 and 20 seconds
    assert caplog.messages == [
        f"Step: reading {50 * BLOCK:,} rows, pass {i}; {seconds} s left" for i, seconds in left
    ]


def test_samples_are_no_passes(clock, caplog):
    with report("Step"):
        read(80 * BLOCK, clock, 0.5, stride=8)
    n = BLOCK
    assert caplog.messages == [f"Step: reading {10 * n:,} of {80 * n:,} rows; 4 s left"]


def test_a_slow_set_up(clock, caplog, monkeypatch):
    """Compilation and passes of a step that is built, in their order."""

    def slow(quick, seconds):
        def slowly(*args, **kwargs):
            clock.work(seconds)
            return quick(*args, **kwargs)

        return slowly

    monkeypatch.setattr(memoise, "_kept", OrderedDict())  # nothing is compiled yet
    monkeypatch.setattr(memoise, "load", lambda *_: None)  # nor on disk
    monkeypatch.setattr(DenseRows, "block_rows", 10)
    # (They would all work by one clock.)
    monkeypatch.setattr("numba.core.config.NUMBA_NUM_THREADS", 1)
    monkeypatch.setattr(derivatives, "_columns", slow(derivatives._columns, 0.25))
    monkeypatch.setattr(compilation, "_compile", slow(compilation._compile, 3.0))
    kernel = replace(HAMILTONIAN, run_kernel=cache(slow(HAMILTONIAN.run_kernel, 20.0)))
    monkeypatch.setattr(HamiltonianAdaptation, "spec", kernel)
    rng = np.random.default_rng(0)
    with pm.Model():
        beta = pm.Normal("beta", 0.0, 1.0)
        mu = rng.normal(size=200) * beta
        pm.StudentT("y", nu=4.0, mu=mu, sigma=1.0, observed=rng.normal(size=200))
        FireflyMH()
    assert all(message.startswith("FireflyMH: ") for message in caplog.messages)
    lines = [message.removeprefix("FireflyMH: ") for message in caplog.messages]
    (mode,) = (i for i, line in enumerate(lines) if line.startswith("posterior mode found in "))
    assert lines[mode].endswith(" passes over the rows of 'y'")
    assert lines[0] == "reading 200 rows, pass 1; 4 s left"
    assert all(line.startswith("reading 200 rows, pass ") for line in lines[:mode])
    assert lines[mode + 1 : -1] == [COMPILING, COMPILING_KERNELS]
    assert lines[-1].startswith("conditional Hamiltonian moves read the bright rows, about ")


def test_the_thread_speaks_and_ends(caplog, monkeypatch):
    monkeypatch.setattr(reporting, "PATIENCE", 0.0)
    caplog.set_level("INFO", "pymc.flymc")
    before, limit = threading.enumerate(), time.monotonic() + 60.0
    with report("Step"), doing("this"):
        while not caplog.messages and time.monotonic() < limit:
            time.sleep(0.001)
    assert caplog.messages == ["Step: this"]
    # Processes of chains are forked: no thread may be running then.
    assert threading.enumerate() == before


def test_level_of_pymc():
    """Lines are shown wherever PyMC's own are."""
    parent = logging.getLogger("pymc")
    before = parent.level
    try:
        for level, shown in ((logging.INFO, True), (logging.WARNING, False)):
            parent.setLevel(level)
            assert log.isEnabledFor(logging.INFO) == shown
    finally:
        parent.setLevel(before)


@pytest.mark.parametrize(
    ("rows", "text"),
    [(0.01, "fewer than 0.1"), (0.07, "about 0.1"), (9.8, "about 9.8"), (1234.5, "about 1,234")],
)
def test_numbers_of_rows(rows, text):
    assert count(rows) == text


def test_a_block_that_takes_minutes_is_named(clock, caplog):
    with report("Step"):
        for _ in range(2):
            read(BLOCK, clock, 90.0)
    assert caplog.messages == [f"Step: reading {BLOCK:,} rows, pass {i}" for i in (1, 2)]


def test_hours_have_few_lines(clock, caplog):
    with report("Step"):
        for _ in range(6):
            read(50 * BLOCK, clock, 60.0)
    assert len(caplog.messages) == 12  # twice as far apart each time


def test_one_is_singular():
    assert [number_of(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def test_a_warning_points_at_the_line_of_the_user():
    """Also through decorators, whose frames are those of a module of Python's."""
    with pytest.warns(UserWarning, match="a warning") as caught:
        doing("something")(warn)("a warning")
    assert caught[0].filename == __file__
