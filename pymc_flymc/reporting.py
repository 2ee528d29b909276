"""What a step says in the log: its name before each line, and a line on whatever takes long."""

import functools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Timer
from typing import Any, Concatenate

#: Seconds that pass without a line.
PATIENCE = 2.0
#: Seconds between lines on how far passes over rows have got.
INTERVAL = 5.0
#: Passes over all of many rows in most set-ups: two in the search for the mode, one for the bound.
USUAL_PASSES = 3

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

    def __init__(self, name: str, passes: int) -> None:
        self.name, self.usual_passes = name, passes
        self.said: set[str] = set()
        self.n_lines = 0
        self._data: dict[int, object] = {}
        self._passes: Counter[int] = Counter()
        self._seconds_read = 0.0
        self._last_line = -INTERVAL

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

    def read[T](self, starts: Sequence[T], n_rows: int, stride: int, data: object) -> Iterator[T]:
        """Yield where the blocks of a pass start; say how long it takes yet if that is long."""
        if stride == 1:
            self._data[id(data)] = data  # kept, so that its number is not another's
            self._passes[id(data)] += 1
            number = self._passes[id(data)]
            what = f"reading {n_rows:,} rows, pass {number}"
            of = f" of about {self.usual_passes}" if self.usual_passes > 1 else ""
            what += of * (number <= self.usual_passes)
        else:
            what = f"reading {len(range(0, n_rows, stride)):,} of {n_rows:,} rows"
        began = first = _clock()
        try:
            for done, start in enumerate(starts):
                yield start
                now = _clock()
                if done == 0:  # it may have waited to be compiled: no measure of others
                    first = now
                    continue
                left = (now - first) / done * (len(starts) - done - 1)
                seconds = self._seconds_read + now - began + left
                due = now >= self._last_line + INTERVAL
                if due and left >= 1.0 and seconds >= PATIENCE:
                    self._last_line = now
                    self._write(f"{what}; {left:.0f} s left")
        finally:
            self._seconds_read += _clock() - began


_report: ContextVar[_Report | None] = ContextVar("report", default=None)


def _clock() -> float:
    return time.monotonic()


@contextmanager
def reporting(name: str, passes: int = USUAL_PASSES) -> Iterator[None]:
    """Put a name before the lines of the log, and have them say what takes long.

    Parameters
    ----------
    name : str
        Of a step or a function.
    passes : int
        Over all rows, as it will probably make.
    """
    report = _Report(name, passes)
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
    timer = Timer(PATIENCE, report.say, [what, report.n_lines])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


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
