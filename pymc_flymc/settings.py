"""Checks of settings: a ValueError says what was given and what is expected."""

import numbers
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

#: Longer representations of what was given do not help.
LONGEST = 60


def check(good: bool, setting: str, expected: str, given: object) -> None:
    """Refuse a setting that is not what is expected.

    Parameters
    ----------
    good : bool
        Whether it is.
    setting : str
        Its name, such as "transitions" or "Tangent: slack".
    expected : str
        What it must be.
    given : object
        What it is.
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

    Parameters
    ----------
    is_kind : callable
        Whether the objects of a class are of that kind.
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
