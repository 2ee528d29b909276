"""Says which chain's process was killed: PyMC's own error is that a connection was reset."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from pymc_flymc.compat.pymc import CHAIN_PROCESS
from pymc_flymc.reporting import log

#: Seconds after the closing of its files within which a process ends.
PATIENCE = 5.0


def watch_chains() -> None:
    """Log an error if the process of a chain is killed; call it once these have been started.

    A thread waits for their end, and ends with the last of them. Processes that this one starts
    for other purposes, such as the workers of a Dask cluster, are not watched.
    """
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
            process.join(PATIENCE)  # its end of the sentinel is closed a moment before it ends
            code = process.exitcode
            # PyMC itself ends chains that do not answer, by SIGTERM.
            if code is not None and code < 0 and code != -signal.SIGTERM:
                log.error(
                    f"the process {process.name} was killed ({signal.Signals(-code).name}), by the "
                    "system if memory has run out. Run the script again: with checkpoint= in the "
                    "step it goes on from there"
                )
