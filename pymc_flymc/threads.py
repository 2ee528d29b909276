"""Threads: work on blocks of rows, with the same results whatever their number, and locks."""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any

#: More would wait for memory, and for Python between one product and the next.
MOST_THREADS = 8


def in_order[T, R](
    work: Callable[[T], R], items: Iterable[T], n_items: int, threaded: bool = True
) -> Iterator[R]:
    """Yield ``work(item)`` for each item, in their order: results do not depend on the threads.

    The threads live no longer than the iteration, so that there are none when chains' processes
    are forked. There is one for each core that numba would use (``NUMBA_NUM_THREADS``); in a
    chain's own process, beside which others run, the calling one does all. BLAS has one thread for
    each of them meanwhile.

    `work`: spends its time in code that does not hold Python's lock, such as NumPy's. It is called
    in copies of the caller's context. `items`: asked for in the calling thread. `n_items`: their
    number. `threaded`: whether to use threads at all.
    """
    with one_blas_thread():
        each = iter(items)
        for item in each:  # the first alone: it may have to compile what all others call
            yield work(item)
            break
        n_threads = min(_n_threads() if threaded else 1, n_items - 1)
        if n_threads < 2:
            yield from map(work, each)
            return
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                for item in each:
                    waiting.append(pool.submit(copy_context().run, work, item))
                    if len(waiting) > n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS has one thread.

    Set-up consists of many small products and solves. Threads that wait for the next take the time
    of those that work: with both cores busy a small triangular solve took 2.3 ms with two threads,
    and 7 us with one.
    """
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


def _n_threads() -> int:
    if multiprocessing.parent_process() is not None:
        return 1
    from numba.core import config  # late, as it is slow to import

    return min(int(config.NUMBA_NUM_THREADS), MOST_THREADS)  # type: ignore[attr-defined]


@cache
def _controller() -> Any:
    """Find the libraries that have threads of their own, once: it takes some milliseconds."""
    import scipy.linalg  # noqa: F401  # its BLAS is not NumPy's, and loaded when first imported
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


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
