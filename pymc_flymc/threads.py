"""Work on blocks of rows by several threads, with the same results whatever their number."""

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from functools import cache

from numba.core.config import NUMBA_NUM_THREADS  # type: ignore[attr-defined]
from threadpoolctl import ThreadpoolController

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

    Parameters
    ----------
    work : callable
        Spends its time in code that does not hold Python's lock, such as NumPy's. It is called in
        copies of the caller's context.
    items : iterable
        Asked for in the calling thread.
    n_items : int
        Their number.
    threaded : bool
        Whether to use threads at all.
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
    return min(int(NUMBA_NUM_THREADS), MOST_THREADS)


@cache
def _controller() -> ThreadpoolController:
    """Find the libraries that have threads of their own, once: it takes some milliseconds."""
    import scipy.linalg  # noqa: F401  # its BLAS is not NumPy's, and loaded when first imported

    return ThreadpoolController()
