"""Mutants of kernels and bounds are caught by the tests that there are."""

from collections import Counter

import pytest

from tests.enumeration.running import PACKAGE, Server
from tests.mutants.mutant import copy_package
from tests.mutants.table import MUTANTS

#: Of each module there are so many mutants that were seen to be caught.
ENOUGH = 5
#: But for those that have fewer things to be wrong in.
FEW = {"kernels/shared_scales.py": 0}  # names of places alone
#: The quick suite runs those of a scheme that takes some tenths of a second.
QUICK_SCHEMES = {"implicit-single-q"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    return copy_package(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def servers():
    """One without a compiler, in which kernels are Python, and one with it, when it is needed."""
    running = {}

    def server(native):
        if native not in running:
            running[native] = Server(native)
        return running[native]

    yield server
    for each in running.values():
        each.__exit__()


def test_every_module_has_enough_mutants():
    counts = Counter(mutant.file for mutant in MUTANTS.values())
    for folder in ("kernels", "bounds"):
        for path in sorted((PACKAGE / folder).glob("[!_]*.py")):
            file = f"{folder}/{path.name}"
            assert counts[file] >= FEW.get(file, ENOUGH), f"write mutants of {file}"


def test_every_mutant_is_one():
    for key, mutant in MUTANTS.items():
        source = (PACKAGE / mutant.file).read_text()
        assert source.count(mutant.original) == 1, f"mend {key}: its line has changed"
        assert mutant.changed != mutant.original, key


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(key, marks=() if mutant.check in QUICK_SCHEMES else pytest.mark.slow)
        for key, mutant in MUTANTS.items()
    ],
)
def test_mutant_is_caught(servers, package, key, tmp_path):
    mutant = MUTANTS[key]
    mutant.apply(package, tmp_path)
    caught, printed = mutant.is_caught(servers(not mutant.is_enumerated), tmp_path)
    assert caught, printed
