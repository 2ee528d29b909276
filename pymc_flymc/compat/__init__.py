"""Private parts of other packages that this one uses: a module for each package.

These are names with a leading underscore, and names that the package's documentation does not
have. Each is looked up when the module here is imported, or, in optional packages, at its first
use. An error says what does not work without it.
"""

from importlib import import_module
from operator import attrgetter
from typing import Any

__all__ = ["private", "require"]


def private(name: str, lost: str) -> Any:
    """Return a private object of another package, or raise an ImportError if it is missing.

    `name` is its module and its name there, such as "pymc.distributions.mixture:_HurdleRV"; `lost`
    is a sentence that says what does not work without it.
    """
    module, _, path = name.partition(":")
    try:
        return attrgetter(path)(import_module(module))
    except (ImportError, AttributeError):
        require(False, name, lost)


def require(there: bool, name: str, lost: str) -> None:
    """Raise an ImportError if a private object of another package is not there."""
    if not there:
        raise ImportError(
            f"{name} is not what it was in the versions that pymc-flymc was tested with: {lost}. "
            "Install one of these, by `pip install pymc-flymc`"
        )
