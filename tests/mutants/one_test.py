"""Run tests in this process, for `enumeration.server`: ``one_test.py NODE``.

Prints by which exceptions they failed, and exits with pytest's code.
"""

import sys

import pytest

#: Raised by code that makes no sense: a mutant that does nothing else proves nothing.
CRASHES = ("SyntaxError", "NameError", "ImportError", "ModuleNotFoundError", "TypingError")


class Failures:
    """Plugin that notes the exceptions of tests that failed."""

    def __init__(self):
        self.names = []

    def pytest_exception_interact(self, node, call, report):
        self.names.append(call.excinfo.type.__name__)


if __name__ == "__main__":
    failures = Failures()
    options = ["-n", "0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", ""]
    code = pytest.main([*options, sys.argv[1]], plugins=[failures])
    crashed = [name for name in failures.names if name in CRASHES]
    print(f"failed by {', '.join(failures.names) or 'nothing'}")
    sys.exit(2 if crashed else int(code))
