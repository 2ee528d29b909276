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


def test_a_step_imports_what_its_first_model_needs():
    """PyMC itself imports numba for that; ArviZ, optimisers and plots can wait."""
    code = "import sys; from pymc_flymc import FireflyMH; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    later = {"arviz", "matplotlib", "scipy.optimize", "scipy.stats", "scipy.sparse.linalg"}
    later |= {"dask", "distributed", "zarr", "pytensor.xtensor", "nutpie", "bambi"}
    assert not later & set(done.stdout.split())
