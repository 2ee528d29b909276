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


class UnsupportedModelError(ValueError):
    """The model is valid PyMC, but Firefly cannot sample it exactly; the message says why.

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


def warn(message: str) -> None:
    """Warn, at the line of the user's own that led here."""
    warnings.warn(message, skip_file_prefixes=_INTERNAL)
