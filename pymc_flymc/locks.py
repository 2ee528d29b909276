"""What one thread does at a time, where users build steps or sample in several."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Lock:
    """A reentrant lock that is open in a forked process, whichever thread held it in the parent."""

    def __init__(self) -> None:
        self._open()
        if hasattr(os, "register_at_fork"):  # Windows has no forks
            os.register_at_fork(after_in_child=self._open)

    def _open(self) -> None:
        self._lock = threading.RLock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, in a `with` statement or as a decorator."""
        with self._lock:
            yield


#: Held while a model is read, or expanded at another anchor. Functions of PyTensor store the
#: arguments of the current call, and equal models share them. PyTensor's settings, and the number
#: of BLAS threads, belong to the process.
reading_lock = Lock()
#: Held while a graph is compiled. A thread that holds the other lock may wait for the threads of a
#: Dask cluster, which compile as well.
compiling_lock = Lock()
