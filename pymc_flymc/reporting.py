"""What a step says in the log: its name before each line, and a line on whatever takes long."""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Concatenate

__all__ = ["COMPILING", "COMPILING_KERNELS", "count", "doing", "log", "reading", "reported"]

#: Seconds that pass without a word.
PATIENCE = 2.0
#: Seconds between lines on the same matter.
INTERVAL = 5.0
#: Seconds between two looks at what is being done.
LOOK = 0.25
#: Passes over all of many rows in most set-ups: two in the search for the mode, one for the bound.
USUAL_PASSES = 3

COMPILING = "compiling what is particular to the model; kept on disk for the next time"
COMPILING_KERNELS = (
    "compiling the sampler for the first time on this machine, up to a minute; kept on disk"
)

_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch", default=None)


class _Prefixed(logging.LoggerAdapter[logging.Logger]):
    """Lines that begin with the name of the step that is at work."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        watch = _watch.get()
        return f"{'Firefly' if watch is None else watch.name}: {msg}", kwargs


#: A child of PyMC's logger, which shows lines of level INFO and follows its level.
log = _Prefixed(logging.getLogger("pymc.flymc"))


@dataclass(eq=False)
class Work:
    """Something that is being done, since a time on the clock."""

    what: str
    began: float
    said: bool = field(default=False, init=False)


@dataclass(eq=False)
class Reading(Work):
    """A pass over rows, of whose blocks some are done: the first and the latest at given times."""

    total: int = 0
    done: int = 0
    first: float = 0.0
    latest: float = 0.0

    def seconds_left(self, now: float) -> float | None:
        """Estimate by the blocks done, but for the first, which may have waited to be compiled."""
        if self.done < 2:
            return None
        each = (self.latest - self.first) / (self.done - 1)
        return each * (self.total - self.done) - (now - self.latest)


class Watch:
    """What a step is doing, and a thread that looks at it now and then.

    Work says what it is and how far it has got; when that is worth a line is decided here. Native
    compilation lets other threads run several times a second.

    Parameters
    ----------
    name : str
        Of the step.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.works: list[Work] = []
        self._said: dict[str, float] = {}
        self._data: dict[int, object] = {}
        self._passes: Counter[int] = Counter()
        self._seconds_read = 0.0
        self._last_line = -INTERVAL
        self._over = threading.Event()

    def run(self) -> None:
        """Look until the step's work is over."""
        while not self._over.wait(LOOK):
            self.look()

    def stop(self) -> None:
        """End `run`."""
        self._over.set()

    def look(self) -> None:
        """Say what takes long, the innermost work if it does, and not what it is a part of."""
        now, works = _clock(), list(self.works)
        for i, work in reversed(list(enumerate(works))):
            line = self._line(work, now)
            if line is not None:
                log.info(line)
                self._said[work.what] = now
                for each in works[: i + 1]:
                    each.said = True
                return

    def _line(self, work: Work, now: float) -> str | None:
        """Return what is to be said of some work now, if anything."""
        left = work.seconds_left(now) if isinstance(work, Reading) else None
        if left is None:
            repeated = now < self._said.get(work.what, -INTERVAL) + INTERVAL
            due = now - work.began >= PATIENCE and not work.said and not repeated
            return work.what if due else None
        seconds = self._seconds_read + now - work.began + left
        if left < 1.0 or seconds < PATIENCE or now < self._last_line + INTERVAL:
            return None
        self._last_line = now
        return f"{work.what}; {left:.0f} s left"

    def read[T](self, starts: Sequence[T], n_rows: int, stride: int, data: object) -> Iterator[T]:
        """Yield where the blocks of a pass over rows start, and take note of each."""
        if stride == 1:
            self._data[id(data)] = data  # kept, so that its number is not another's
            self._passes[id(data)] += 1
            number = self._passes[id(data)]
            what = f"reading {n_rows:,} rows, pass {number}"
            what += f" of about {USUAL_PASSES}" * (number <= USUAL_PASSES)
        else:
            what = f"reading {len(range(0, n_rows, stride)):,} of {n_rows:,} rows"
        now = _clock()
        work = Reading(what, now, len(starts))
        self.works.append(work)
        try:
            for start in starts:
                yield start
                work.latest = _clock()
                if not work.done:
                    work.first = work.latest
                work.done += 1
        finally:
            self.works.remove(work)
            self._seconds_read += _clock() - now


def _clock() -> float:
    return time.monotonic()


@contextmanager
def reporting(name: str) -> Iterator[Watch]:
    """Put a step's name before the lines of the log, and have it say what takes long.

    There is a thread for as long as this lasts, and none when chains' processes are forked.
    """
    watch = Watch(name)
    token = _watch.set(watch)
    thread = threading.Thread(target=contextvars.copy_context().run, args=(watch.run,), daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop()
        thread.join()
        _watch.reset(token)


def reported[S, **P, R](
    method: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[S, P], R]:
    """Let a step's method report under the name of the step's class."""

    @functools.wraps(method)
    def reporting_method(step: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with reporting(type(step).__name__):
            return method(step, *args, **kwargs)

    return reporting_method


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say what is being done, if it takes long: while it does."""
    watch = _watch.get()
    if watch is None:
        yield
        return
    work = Work(what, _clock())
    watch.works.append(work)
    try:
        yield
    finally:
        watch.works.remove(work)


def reading[T](starts: Sequence[T], n_rows: int, stride: int, data: object) -> Iterable[T]:
    """Return where the blocks of a pass over every stride-th of n rows start, and count them.

    Passes over the same `data` are numbered.
    """
    watch = _watch.get()
    return starts if watch is None else watch.read(starts, n_rows, stride, data)


def count(rows: float) -> str:
    """Return an expected number of rows as text."""
    if rows < 0.05:
        return "fewer than 0.1"
    return f"about {rows:,.1f}" if rows < 9.95 else f"about {rows:,.0f}"
