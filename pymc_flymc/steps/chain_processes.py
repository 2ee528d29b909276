"""Processes of chains: they end with the process that samples, which logs if one was killed."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

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
