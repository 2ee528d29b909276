"""Processes of chains, and interrupts (Ctrl-C) while a step works."""

import _thread
import functools
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from types import CodeType, FrameType
from typing import Any

from pymc_flymc.compat.pymc import CHAIN_PROCESS, known_exit_code
from pymc_flymc.reporting import log

_THREAD = "pymc-flymc-parent"
#: Seconds between checks of the parent on systems that do not report its end at once.
_INTERVAL = 0.5
#: Seconds between checks of a process that has ended, until PyMC has joined it.
_LATER = 0.01


def end_with_parent() -> None:
    """End this process soon after its parent, if it is one of PyMC's for a chain.

    Python ends daemonic processes, as PyMC's are, when their parent exits, but cannot if it is
    killed. A forked chain would then wait forever: it holds both ends of the pipe to its parent.

    A thread waits for the parent's end. To act on it, it needs the interpreter, which a draw keeps
    for as long as it is in native code: the process ends after the current draw.
    """
    parent = multiprocessing.parent_process()
    if parent is None or not multiprocessing.current_process().daemon:
        return
    if any(thread.name == _THREAD for thread in threading.enumerate()):
        return
    arguments = parent.pid, parent.sentinel
    threading.Thread(target=_wait_for, args=arguments, name=_THREAD, daemon=True).start()


def _wait_for(parent: int, sentinel: int) -> None:
    """Exit when the parent has ended.

    The sentinel alone would do, were it not for forked siblings, and other children of the parent,
    which inherit its other end and keep it open. They share the parent's id, too, which the system
    replaces when the parent ends; a chain of a fork server is the server's child, and has neither.
    """
    forked = os.getppid() == parent
    while not wait([sentinel], _INTERVAL) and not (forked and os.getppid() != parent):
        pass
    os._exit(1)


def watch_chains() -> None:
    """Log an error if the process of a chain is killed; call it once these have been started."""
    # A thread waits for their end, and ends with the last of them. Processes that this one starts
    # for other purposes, such as the workers of a Dask cluster, are not watched.
    children = multiprocessing.active_children()
    processes = [each for each in children if each.name.startswith(CHAIN_PROCESS)]
    if processes:
        threading.Thread(target=_watch, args=(processes,), daemon=True).start()


def _watch(processes: Sequence[BaseProcess]) -> None:
    left = {process.sentinel: process for process in processes}
    while left:
        for sentinel in wait(list(left)):
            assert isinstance(sentinel, int)
            process = left.pop(sentinel)
            # PyMC joins all. While another thread does, too, an ended process may seem alive.
            while (code := known_exit_code(process)) is None:
                time.sleep(_LATER)
            # PyMC itself ends chains that do not answer, by SIGTERM.
            if code < 0 and code != -signal.SIGTERM:
                log.error(
                    f"the process {process.name} was killed ({signal.Signals(-code).name}), by the "
                    "system if memory has run out. Run the script again: with checkpoint= in the "
                    "step it goes on from there"
                )


#: Seconds after which an interrupt is tried again if it came in code that cannot be interrupted.
_RAISED_LATER = 0.001


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
            again = threading.Timer(_RAISED_LATER, _thread.interrupt_main)
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
