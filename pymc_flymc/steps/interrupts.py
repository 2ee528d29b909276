"""Interrupts (Ctrl-C) while a step works: raised where they do no harm, and never lost."""

import _thread
import functools
import signal
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

#: Seconds after which an interrupt is tried again if it came in code that cannot be interrupted.
_LATER = 0.001


class Interrupts:
    """Handles interrupts from `begin` to `end`.

    They go to the previous handler, which raises `KeyboardInterrupt` unless the user has set
    another one. Python drops what is raised in finalizers and other callbacks: `check` raises it
    again. Handlers belong to a process, and only its main thread can set them.
    """

    def __init__(self) -> None:
        self._theirs: Callable[[int, FrameType | None], Any] | None = None
        self._raised: BaseException | None = None
        self._left = 0
        self._unchecked: frozenset[CodeType] = frozenset()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """Pickle none of it: handlers stay in their process."""
        return Interrupts, ()

    def begin(self, checks: int = 0) -> None:
        """Handle interrupts until `end`, or until `check` has been called this many times."""
        from pymc_flymc.compat.numba import UNCHECKED  # late: see `FireflyStep`

        self._raised, self._left, self._unchecked = None, checks, UNCHECKED
        handler = signal.getsignal(signal.SIGINT)
        owner = getattr(handler, "__self__", None)
        if isinstance(owner, Interrupts):  # the handler of a chain that failed, or of another step
            handler = owner._theirs
        # Signals that the system handles itself, or ignores, raise nothing.
        if callable(handler) and threading.current_thread() is threading.main_thread():
            self._theirs = handler
            signal.signal(signal.SIGINT, self._handle)

    def end(self) -> None:
        """Restore the previous handler."""
        if self._theirs is not None and signal.getsignal(signal.SIGINT) == self._handle:
            signal.signal(signal.SIGINT, self._theirs)

    def check(self) -> None:
        """Raise an interrupt's exception again, if Python has dropped it."""
        self._left -= 1
        if self._left == 0:
            self.end()
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised

    def _handle(self, number: int, frame: FrameType | None) -> None:
        assert self._theirs is not None
        if self._is_unchecked(frame):
            again = threading.Timer(_LATER, _thread.interrupt_main)
            again.daemon = True
            again.start()
            return
        try:
            self._theirs(number, frame)
        except BaseException as error:
            self._raised = error
            self.end()
            raise

    def _is_unchecked(self, frame: FrameType | None) -> bool:
        """Return whether native code that ignores exceptions waits for a frame to return."""
        while frame is not None and frame.f_code not in self._unchecked:
            frame = frame.f_back
        return frame is not None


def interruptible[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with interrupts handled while it runs."""

    @functools.wraps(function)
    def interruptible_function(*args: P.args, **kwargs: P.kwargs) -> R:
        interrupts = Interrupts()
        interrupts.begin()
        try:
            result = function(*args, **kwargs)
            interrupts.check()
            return result
        except Exception:
            interrupts.check()  # if an interrupt caused the error, raise the interrupt instead
            raise
        finally:
            interrupts.end()

    return interruptible_function
