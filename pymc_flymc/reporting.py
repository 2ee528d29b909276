"""Log lines of a step: its name before each line, and progress; how long stages take."""

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Timer
from time import perf_counter
from typing import Any, Concatenate

import numpy as np

#: Statistics with the seconds of the parts of a set-up, and what the parts are called.
SETUP = {
    "reading_time": "reading",
    "mode_time": "mode finding",
    "check_time": "checks",
    "choice_time": "choice of moves",
}
#: Types of the statistics, of which the last one is the time since the chain began.
TIMES: dict[str, Any] = dict.fromkeys((*SETUP, "elapsed_time"), (np.float64, []))


class Stopwatch:
    """Seconds that a step takes by the clock: for its set-up, and for the chain that runs."""

    def __init__(self) -> None:
        self._setup = dict.fromkeys(SETUP, 0.0)
        self._since = perf_counter()

    def lap(self, part: str) -> None:
        """Count the time since the last call as that of a part of the set-up."""
        now = perf_counter()
        self._setup[part] += now - self._since
        self._since = now

    def begin_chain(self, elapsed: float = 0.0) -> None:
        """Begin the time of a chain, or go on with one that has taken so many seconds before."""
        self._since = perf_counter() - elapsed

    def statistics(self) -> dict[str, float]:
        """Return `TIMES` of a draw that ends now."""
        return {**self._setup, "elapsed_time": perf_counter() - self._since}


#: Seconds that pass without a line.
PATIENCE = 2.0
#: Seconds between the first two lines on how far passes over rows have got. They double from line
#: to line, so that a file has few lines of hours.
INTERVAL = 5.0

COMPILING = "compiling what is particular to the model; kept on disk for the next time"
COMPILING_KERNELS = (
    "compiling the sampler for the first time on this machine, up to a minute; kept on disk"
)


class _Prefixed(logging.LoggerAdapter[logging.Logger]):
    """Lines that begin with the name of the step that is at work."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        report = _report.get()
        return f"{'Firefly' if report is None else report.name}: {msg}", kwargs


#: A child of PyMC's logger, which shows lines of level INFO and follows its level.
log = _Prefixed(logging.getLogger("pymc.flymc"))


class _Report:
    """What a step has said while it is set up, and the passes over rows that it has made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.said: set[str] = set()
        self.n_lines = 0
        self._data: dict[int, object] = {}
        self._passes: Counter[int] = Counter()
        self._seconds_read = 0.0
        self._next_line, self._interval = 0.0, INTERVAL

    def end(self) -> None:
        """Let data go: callbacks that were begun meanwhile keep the report as long as they live."""
        self._data.clear()

    def say(self, what: str, n_lines: int) -> None:
        """Say what is being done, unless a part of it has been said since there were n lines."""
        if self.n_lines == n_lines:
            self.said.add(what)
            self._write(what)

    def _write(self, line: str) -> None:
        self.n_lines += 1
        log.logger.info(f"{self.name}: {line}")  # from any thread

    def _say_how_far(self, line: str) -> None:
        """Write a line, unless it is too soon after the last one."""
        now = _clock()
        if now >= self._next_line:
            self._next_line, self._interval = now + self._interval, 2.0 * self._interval
            self._write(line)

    def read[T](self, starts: Sequence[T], n_rows: int, stride: int, data: object) -> Iterator[T]:
        """Yield where the blocks of a pass start; say how long it takes yet if that is long."""
        if stride == 1:
            self._data[id(data)] = data  # kept, so that its number is not another's
            self._passes[id(data)] += 1
            what = f"reading {number_of(n_rows, 'row')}, pass {self._passes[id(data)]}"
        else:
            what = f"reading {len(range(0, n_rows, stride)):,} of {number_of(n_rows, 'row')}"
        began = first = _clock()
        with _after(PATIENCE, self._say_how_far, what) as timer:  # a block may take minutes
            try:
                for done, start in enumerate(starts):
                    yield start
                    now = _clock()
                    if done == 0:  # it may have waited to be compiled: no measure of others
                        first = now
                        timer.cancel()
                        continue
                    left = (now - first) / done * (len(starts) - done - 1)
                    seconds = self._seconds_read + now - began + left
                    if left >= 1.0 and seconds >= PATIENCE:
                        self._say_how_far(f"{what}; {left:.0f} s left")
            finally:
                self._seconds_read += _clock() - began


@contextmanager
def _after(seconds: float, say: Callable[..., None], *arguments: Any) -> Iterator[Timer]:
    """Call a function if this takes long, and have no thread left when it ends."""
    timer = Timer(seconds, say, arguments)
    timer.daemon = True
    timer.start()
    try:
        yield timer
    finally:
        timer.cancel()
        timer.join()


_report: ContextVar[_Report | None] = ContextVar("report", default=None)


def _clock() -> float:
    return time.monotonic()


@contextmanager
def reporting(name: str) -> Iterator[None]:
    """Put the name of a step or a function before the lines of the log, on what takes long, too."""
    report = _Report(name)
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)
        report.end()


def reported[S, **P, R](method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a step's method report under the name of the step's class."""

    @functools.wraps(method)
    def reporting_method(step: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with reporting(type(step).__name__):
            return method(step, *args, **kwargs)

    return reporting_method


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say what is being done, while it is, if it takes long: once for each step.

    Native compilation lets other threads run several times a second. None is left when this ends:
    processes of chains are forked.
    """
    report = _report.get()
    if report is None or what in report.said:
        yield
        return
    with _after(PATIENCE, report.say, what, report.n_lines):
        yield


def reading[T](starts: Sequence[T], n_rows: int, stride: int, data: object) -> Iterable[T]:
    """Return where the blocks of a pass over every stride-th of n rows start, and count them.

    Passes over the same `data` are numbered.
    """
    report = _report.get()
    return starts if report is None else report.read(starts, n_rows, stride, data)


def count(rows: float) -> str:
    """Return an expected number of rows as text."""
    if rows < 0.05:
        return "fewer than 0.1"
    return f"about {rows:,.1f}" if rows < 9.95 else f"about {rows:,.0f}"


def number_of(n: int, noun: str) -> str:
    """Return a number of things as text: 1 row, 2,000 rows."""
    return f"{n:,} {noun}{'s' if n != 1 else ''}"
