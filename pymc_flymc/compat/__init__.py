"""What this package uses of others that they do not promise to keep: a module for each of them.

That is names which begin with an underscore, and names which their owners' documentation does not
have. Each is looked up when the module here is imported, or, of what need not be installed, when it
is first used. An error says what is lost without it.
"""

from importlib import import_module
from operator import attrgetter
from typing import Any

__all__ = ["private", "require"]


def private(name: str, lost: str) -> Any:
    """Return an object that another package does not promise to keep.

    Parameters
    ----------
    name : str
        Its module and its name there, such as "pymc.distributions.mixture:_HurdleRV".
    lost : str
        What does not work without it: a sentence.

    Raises
    ------
    ImportError
        If the version that is installed does not have it.
    """
    module, _, path = name.partition(":")
    try:
        return attrgetter(path)(import_module(module))
    except (ImportError, AttributeError):
        require(False, name, lost)


def require(there: bool, name: str, lost: str) -> None:
    """Raise an ImportError if what another package does not promise is not there.

    Parameters
    ----------
    there : bool
        Whether it is.
    name, lost : str
        As of `private`.
    """
    if not there:
        raise ImportError(
            f"{name} is not what it was in the versions that pymc-flymc was tested with: {lost}. "
            "Install one of these, by `pip install pymc-flymc`"
        )
