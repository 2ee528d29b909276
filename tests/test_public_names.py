"""What `pymc_flymc` offers is imported when it is asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pymc_flymc


def for_type_checkers():
    """Yield names, and modules, that type checkers are told of."""
    (block,) = (
        node
        for node in ast.parse(Path(pymc_flymc.__file__).read_text()).body
        if isinstance(node, ast.If)
    )
    for node in block.body:
        yield from ((alias.name, node.module) for alias in node.names)


def test_all_names_are_what_type_checkers_are_told():
    told = dict(for_type_checkers())
    assert sorted(told) == pymc_flymc.__all__ == sorted(pymc_flymc.__all__)
    assert set(told) <= set(dir(pymc_flymc))
    for name, module in told.items():
        assert getattr(pymc_flymc, name) is getattr(import_module(module), name)


def test_there_are_no_others():
    with pytest.raises(AttributeError, match="no attribute 'register_kernel'"):
        pymc_flymc.register_kernel


def test_nothing_is_imported_with_the_package():
    """Who imports it beside PyMC waits for PyMC alone, and no kernel is loaded."""
    command = [sys.executable, "-c", "import sys, pymc_flymc; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {name.split(".")[0] for name in done.stdout.split()}
    assert "pymc_flymc" in found and not found & {"numba", "numpy", "scipy", "pytensor", "pymc"}


ADDED = """
import sys
import pymc
before = set(sys.modules)
from pymc_flymc import FireflyHMC, FireflyMALA, FireflyMH, FireflySlice, report
print(len(before), *set(sys.modules) - before)
"""


def test_steps_are_imported_in_the_time_of_pymc():
    """Numba, SciPy's parts and kernels, which take as long as PyMC, wait for the first model."""
    done = subprocess.run([sys.executable, "-c", ADDED], capture_output=True, text=True, check=True)
    n_before, *added = done.stdout.split()
    others = {name.split(".")[0] for name in added} - {"pymc_flymc"}
    assert "pymc_flymc.steps.step" in added
    assert others <= sys.stdlib_module_names
    assert len(added) < 0.1 * int(n_before)
