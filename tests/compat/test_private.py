"""What others do not promise to keep is named in one folder, and missed with a reason."""

import ast
import inspect
import tomllib
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import pymc_flymc
from pymc_flymc import FireflyHMC
from pymc_flymc.compat import private
from pymc_flymc.compat.pytensor import rewrites

PACKAGE = Path(pymc_flymc.__file__).parent
COMPAT = PACKAGE / "compat"
MODULES = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
#: Documented, in spite of their underscores: of named tuples, and of Python itself.
PUBLIC = {"_replace", "_fields", "_asdict", "_make", "_exit", "_thread"}


def is_private(name):
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__")


def own_names():
    """Return private attributes that the package gives to objects of its own."""
    found = set()
    for node in (node for tree in MODULES.values() for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        for part in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(part, ast.FunctionDef):
                found.add(part.name)
            elif isinstance(part, ast.AnnAssign | ast.Assign):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                found.update(each.id for each in targets if isinstance(each, ast.Name))
    return found


def looked_up():
    """Return modules and names that are looked up in the folder for it."""
    for tree in (tree for path, tree in MODULES.items() if COMPAT in path.parents):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                if getattr(node.func, "id", "") == "private" and isinstance(
                    node.args[0], ast.Constant
                ):
                    module, _, name = node.args[0].value.partition(":")
                    yield module, name.split(".")[0]


def private_names(tree, own, known):
    """Yield names in a module that are others' own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if is_private(alias.name) or (node.module, alias.name) in known:
                    yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if node.attr not in own and node.attr not in PUBLIC:
                yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("getattr", "hasattr", "setattr"):
                name = getattr(node.args[1], "value", None)
                if is_private(name) and name not in own:
                    yield name


def test_are_named_in_one_folder():
    own, known = own_names(), set(looked_up())
    assert len(known) > 10
    found = {
        str(path.relative_to(PACKAGE)): sorted(names)
        for path, tree in MODULES.items()
        if COMPAT not in path.parents and (names := set(private_names(tree, own, known)))
    }
    assert not found


def is_ours(kind):
    return kind.__module__.partition(".")[0] == PACKAGE.name


def overrides(kind):
    """Yield private attributes of a class of ours that override those of somebody else's."""
    others = [base for base in kind.__mro__ if not is_ours(base)]
    theirs = {name for base in others if base.__module__ != "typing" for name in vars(base)}
    for base in filter(is_ours, kind.__mro__):
        if not base.__module__.startswith(f"{PACKAGE.name}.compat."):
            names = filter(is_private, theirs & vars(base).keys() - {"_abc_impl"})
            yield from (f"{base.__name__}.{name}" for name in names)


def test_are_overridden_in_one_folder():
    found = set()
    for path in MODULES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = import_module(".".join(parts).removesuffix(".__init__"))
        for kind in filter(inspect.isclass, vars(module).values()):
            found.update(overrides(kind) if is_ours(kind) else ())
    assert not found


def test_overrides_are_found():
    class Step(FireflyHMC):
        _state_class = None

    Step.__module__ = PACKAGE.name
    assert list(overrides(Step)) == ["Step._state_class"]


def test_are_found_by_this_test():
    own, known = own_names(), set(looked_up())
    source = (
        "from pymc.distributions.mixture import _HurdleRV\n"
        "from numba.core import cgutils\n"
        "frame._meta\nhasattr(op, '_print_name')\nchain._replace(v=v)\n"
    )
    found = ["pymc.distributions.mixture._HurdleRV", "numba.core.cgutils", "_meta", "_print_name"]
    assert sorted(private_names(ast.parse(source), own, known)) == sorted(found)


@pytest.mark.parametrize("name", ["numba.core:gone", "pymc.gone:gone", "numba.core:cgutils.gone"])
def test_are_missed_with_what_is_lost(name):
    lost = "hurdles are not recognised"
    with pytest.raises(ImportError, match=f"{name} .* tested with: {lost}. Install"):
        private(name, lost)


def test_rewrites_of_unknown_names():
    """PyTensor would leave them out without a word."""
    assert rewrites("merge", "fusion") == ("merge", "fusion")
    with pytest.raises(ImportError, match="rewrite 'local_gone'"):
        rewrites("merge", "local_gone")


def test_versions_have_an_end():
    """Those of packages of which something private is used: the last minor that was tested."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["dask"]]
    for library in {path.stem.split("_")[0] for path in COMPAT.glob("[!_]*.py")}:
        (line,) = [each for each in map(Requirement, asked) if each.name == library]
        installed = Version(version(library))
        assert installed in line.specifier, line
        assert f"{installed.major + 1}.0" not in line.specifier, line
