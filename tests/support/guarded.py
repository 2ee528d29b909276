"""Arrays at the edge of memory that must not be touched, and processes that may die of it."""

import ctypes
import faulthandler
import mmap
import os

import numpy as np

_kept = []


def guarded(what, at_end):
    """Copy of a record whose arrays end, or begin, at a page that must not be touched."""
    if isinstance(what, tuple):
        members = [guarded(each, at_end) for each in what]
        return type(what)(*members) if hasattr(what, "_fields") else tuple(members)
    if not isinstance(what, np.ndarray):
        return what
    pages = -(-max(what.nbytes, 1) // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        place = ctypes.c_void_p(start + page * mmap.PAGESIZE)
        assert ctypes.CDLL(None).mprotect(place, mmap.PAGESIZE, 0) == 0
    _kept.append(memory)
    offset = (pages + 1) * mmap.PAGESIZE - what.nbytes if at_end else mmap.PAGESIZE
    copy = np.frombuffer(memory, what.dtype, what.size, offset).reshape(what.shape)
    copy[...] = what
    copy.flags.writeable = what.flags.writeable
    return copy


def signal_of(run):
    """Run in a fork; return the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            faulthandler.disable()
            run()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code <= 0, "an exception"
    return -code
