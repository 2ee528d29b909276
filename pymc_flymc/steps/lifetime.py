"""The process of a chain ends when the process that samples has ended."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait

_THREAD = "pymc-flymc-parent"
#: Seconds between looks at the parent where nothing tells at once that it has ended.
_INTERVAL = 0.5


def end_with_parent() -> None:
    """End this process soon after its parent, if it is one of PyMC's for a chain.

    Python ends daemonic processes, as PyMC's are, when their parent exits, but cannot if it is
    killed. A forked chain would then wait for ever: it holds both ends of the pipe to its parent.

    A thread waits for the parent's end. To act on it, it needs the interpreter, which a draw keeps
    for as long as it is in native code: the process ends after the draw that is under way.
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
