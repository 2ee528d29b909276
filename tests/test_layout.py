"""The folders of the package are the way of the data: each imports only what stands above it."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import pymc_flymc

PACKAGE = Path(pymc_flymc.__file__).parent
#: From native code, which knows nothing of models, to the steps.
ORDER = (
    "compat",
    "errors",
    "order",
    "reporting",
    "threads",
    "kernels",
    "graphs",
    "likelihoods",
    "regression",
    "reading",
    "anchor",
    "bounds",
    "target",
    "agreement",
    "sampling",
    "run_report",
    "out_of_core",
    "checkpoint",
    "steps",
    "plots",
)
#: Names in several folders: of a kernel and its step; a bound and a likelihood.
SAME_THING = {"hamiltonian", "metropolis", "slice", "softmax"}
MODULES = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported(path):
    """Yield the names of all modules that a file imports, or imports something from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room(module):
    """Return the folder of a module of the package, or the module itself at its root."""
    return module.split(".")[1]


@pytest.mark.parametrize("file", MODULES, ids=str)
def test_imports_go_one_way(file):
    here = file.parts[0].removesuffix(".py")
    if here in ("__init__", "warmup", "extending"):  # they import all of it
        return
    assert here in ORDER, f"where does {here} stand?"
    for module in imported(MODULES[file]):
        if module.startswith("pymc_flymc."):
            assert ORDER.index(room(module)) <= ORDER.index(here), f"{file} imports {module}"


@pytest.mark.parametrize("file", [file for file in MODULES if "kernels" in str(file)], ids=str)
def test_kernels_know_neither_pymc_nor_pytensor(file):
    modules = set(imported(MODULES[file]))
    assert not {module.split(".")[0] for module in modules} & {"pymc", "pytensor", "arviz"}
    assert not modules & {f"pymc_flymc.compat.{name}" for name in ("pymc", "pytensor", "arviz")}


@pytest.mark.parametrize("file", MODULES, ids=str)
def test_optional_packages_are_imported_where_they_are_needed(file):
    """Not when the package is imported: it works without them."""
    optional = {"dask", "distributed", "zarr", "pyarrow", "pandas"}
    for node in ast.parse(MODULES[file].read_text()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not optional & {name.split(".")[0] for name in names}


def test_no_module_imports_itself_in_a_circle():
    names = {
        ".".join(("pymc_flymc", *file.with_suffix("").parts)).removesuffix(".__init__"): file
        for file in MODULES
    }
    arrows = {
        name: {other for other in imported(MODULES[file]) if other in names and other != name}
        for name, file in names.items()
        if name != "pymc_flymc"
    }
    # Take away what imports nothing that is left, until nothing changes.
    while free := {name for name, others in arrows.items() if not others & arrows.keys()}:
        arrows = {name: others for name, others in arrows.items() if name not in free}
    assert not arrows


def test_modules_share_a_name_only_where_they_are_the_same_thing_on_another_floor():
    names = Counter(file.stem for file in MODULES if file.stem != "__init__")
    assert {name for name, times in names.items() if times > 1} == SAME_THING


def test_no_module_has_the_name_of_a_folder_that_it_is_not_in():
    folders = {part for file in MODULES for part in file.parts[:-1]}
    assert not [file for file in MODULES if file.stem in folders - set(file.parts[:-1])]
