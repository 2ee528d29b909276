"""Errors and warnings that this package raises on purpose, and checks of settings."""

import contextlib
import numbers
import os
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
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


#: Longer representations of what was given do not help.
LONGEST = 60


def check(good: bool, setting: str, expected: str, given: object) -> None:
    """Refuse a setting that is not what is expected.

    `good`: whether it is. `setting`: its name, such as "transitions" or "Tangent: slack".
    `expected`: what it must be. `given`: what it is.
    """
    if not good:
        raise ValueError(f"{setting} must be {expected}, not {_described(given)}")


def check_choice(setting: str, given: object, choices: Collection[str]) -> None:
    """Refuse what is not one of several names."""
    good = isinstance(given, str) and given in choices
    check(good, setting, f"one of {', '.join(choices)}", given)


def check_object(
    setting: str, given: object, is_kind: Callable[[type], bool], expected: str
) -> None:
    """Refuse what is not an object of some kind, such as a class that was not called.

    `is_kind`: whether the objects of a class are of that kind.
    """
    if isinstance(given, type) and is_kind(given):
        called = f"{given.__name__}()"
        raise ValueError(f"{setting} must be {expected}, not the class itself: write {called}")
    check(is_kind(type(given)), setting, expected, given)


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, which may be infinite or NaN."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def is_positive_integer(value: Any) -> bool:
    """Return whether a value is a positive integer; 5.0 is one."""
    return is_number(value) and value >= 1 and float(value).is_integer()


def _described(given: object) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}"
    text = repr(given)
    brief = len(text) <= LONGEST and "\n" not in text and " object at 0x" not in text
    return text if brief else f"an object of type {type(given).__name__}"
