"""Errors and warnings that this package raises on purpose."""

import contextlib
import os
import warnings
from pathlib import Path

import pymc

#: A warning should point at the user's own line: frames in these files are skipped. (Python 3.12
#: compares no last letter: a whole name is not found.)
_INTERNAL = (
    *(str(Path(file).parent) + os.sep for file in (__file__, pymc.__file__)),
    contextlib.__file__.removesuffix(".py"),
)


#: The way out of every refusal.
OTHERWISE = "Or leave out step=, and PyMC samples the model as it is, with its own rows."
#: Settings that a message may tell to change or to leave out instead.
_SETTINGS = ("step=", "data=", "kernel=", "vars=")


class UnsupportedModelError(ValueError):
    """The model is valid PyMC, but Firefly cannot sample it exactly; the message says why.

    It ends in the way out that there always is, to sample without the step, unless it names a
    setting that is another one.

    Parameters
    ----------
    message : str
        What cannot be sampled, and what to write instead.

    See Also
    --------
    extending.register_likelihood : teaches steps another likelihood.

    Examples
    --------
    >>> try:
    ...     step = FireflyMH(model=model)
    ... except UnsupportedModelError as error:
    ...     print(error)  # what to write instead
    """

    def __init__(self, message: str) -> None:
        has_way_out = any(setting in message for setting in _SETTINGS)
        super().__init__(message if has_way_out else f"{message}\n{OTHERWISE}")


def warn(message: str) -> None:
    """Warn, at the line of the user's own that led here."""
    warnings.warn(message, skip_file_prefixes=_INTERNAL)
