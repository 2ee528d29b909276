"""Retries for rows that cannot be read for a while."""

import time
from collections.abc import Callable

from pymc_flymc.reporting import log

#: Seconds before each further try to read rows.
PAUSES = 1.0, 2.0, 4.0, 8.0, 16.0
#: Errors that waiting does not mend.
FOR_GOOD = FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError


def may_pass(error: BaseException | None) -> bool:
    """Return whether a later try may succeed: a disk or a network has failed, the file exists."""
    return isinstance(error, OSError) and not isinstance(error, FOR_GOOD)


def say_again(what: str, error: BaseException | None, pause: float) -> None:
    """Say that rows will be read again after a pause, in seconds."""
    log.warning(
        f"{what} could not be read ({type(error).__name__}: {error}): trying again in {pause:.0f} s"
    )


def read_patiently[T](read: Callable[[], T], what: str) -> T:
    """Return what is read, after some tries; an error that remains names what was read.

    Parameters
    ----------
    read : callable
    what : str
        For messages.
    """
    for pause in (*PAUSES, None):
        try:
            return read()
        except Exception as error:
            if pause is None or not may_pass(error):
                error.add_note(f"{what} cannot be read")
                raise
            say_again(what, error, pause)
            time.sleep(pause)
    raise AssertionError
