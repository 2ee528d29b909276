"""Compiled code is kept for what it was compiled from, and somewhere."""

import ast
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numba
import numpy as np
import pytest

from pymc_flymc.kernels import native
from pymc_flymc.kernels.native import PACKAGE, version_of

SOURCES = {
    "kernels/inner.py": "SIZE = 3\n",
    "kernels/outer.py": "from package.kernels.inner import SIZE\n",
    "kernels/other.py": "",
    "graphs/loops.py": "def loop():\n    from package.kernels import outer\n",
    "reporting.py": "from package.kernels.other import nothing\n",
    "graphs/alone.py": "from package.reporting import log\nimport numpy\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """``version(file)`` of a small package in a folder."""
    root = tmp_path / "package"
    for name, text in SOURCES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(native, "PACKAGE", root)
    monkeypatch.setattr(native, "LOADED", np.inf)  # whatever is written below was there before
    pattern = native._IMPORT.pattern.replace(PACKAGE.name, "package")
    monkeypatch.setattr(native, "_IMPORT", native.re.compile(pattern, native.re.MULTILINE))

    def version(name):
        clear()
        return version_of(str(root / name))

    yield root, version
    clear()


@pytest.mark.parametrize("changed", SOURCES)
def test_a_change_in_what_is_imported_changes_the_key(package, changed):
    """Through other modules too, from within functions, and of a folder from all of it."""
    root, version = package
    before = {name: version(name) for name in SOURCES}
    assert len(set(before.values())) == len(SOURCES)
    with open(root / changed, "a") as file:
        file.write("# changed\n")
    users = {
        "kernels/inner.py": {"kernels/outer.py", "graphs/loops.py"},
        "kernels/outer.py": {"graphs/loops.py"},
        "kernels/other.py": {"graphs/loops.py", "reporting.py"},
    }
    expected = {changed, *users.get(changed, set())}
    assert {name for name in SOURCES if version(name) != before[name]} == expected


def test_what_runs_is_not_kept_as_what_replaced_it(package, monkeypatch):
    """After an upgrade a process that goes on has the modules of before, and the files of now."""
    root, version = package
    before = {name: version(name) for name in SOURCES}
    monkeypatch.setattr(native, "LOADED", time.time() + 60.0)
    assert {name: version(name) for name in SOURCES} == before
    later = time.time() + 120.0
    os.utime(root / "kernels/outer.py", (later, later))
    for name in SOURCES:
        is_older = name not in ("kernels/outer.py", "graphs/loops.py")
        assert (version(name) == before[name]) == is_older
    assert version("graphs/loops.py") != version("graphs/loops.py")  # nor shared with any other


def clear():
    for function in (native.environment, version_of, native._imported):
        function.cache_clear()


@pytest.mark.parametrize("flag", native.FLAGS)
def test_settings_of_numba_change_the_key(flag, monkeypatch):
    before = version_of(native.__file__)
    clear()
    monkeypatch.setattr(numba.config, flag, "another")
    assert version_of(native.__file__) != before
    monkeypatch.undo()
    clear()
    assert version_of(native.__file__) == before


def test_settings_that_change_what_is_compiled_are_in_the_key():
    """Without the first, a run under checks of indices would load code that has none."""
    assert set(native.FLAGS) >= {"BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE"}


def test_all_imports_are_found():
    """By their text, as Python reads them."""
    for file in PACKAGE.rglob("*.py"):
        tree = ast.walk(ast.parse(file.read_text()))
        names = {node.module or "" for node in tree if isinstance(node, ast.ImportFrom)}
        paths = [PACKAGE.parent.joinpath(*name.split(".")) for name in names]
        own = {path.with_suffix(".py") for path in paths} & set(PACKAGE.rglob("*/*.py"))
        assert own <= native._imported(file)


def test_native_code_has_its_sources_in_its_key():
    """What PyTensor keeps, under keys that we make, and what kernels are kept as."""
    calls = ("numba_njit(", "@numba_njit", "keep_as(")
    for file in set(PACKAGE.rglob("*.py")) - {PACKAGE / "compat" / "pytensor.py"}:
        text = file.read_text()
        assert "version_of(" in text or not any(call in text for call in calls), file
        # What is compiled from a graph alone depends on it, which PyTensor has in its key.
        assert "environment()" in text or "unwrapped(" not in text, file
        assert "numba.njit" not in text or file.name == "native.py", file


def python(script, env, folder):
    """Run a script without the right to write where the owner of a folder must not."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    if os.geteuid() == 0:  # whom nothing stops
        if shutil.which("setpriv") is None:
            pytest.skip("needs setpriv, or another user than root")
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    given = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    return subprocess.run(command, env=given | env, cwd=folder, capture_output=True, text=True)


@pytest.fixture
def container(tmp_path):
    """The package in a folder that cannot be written to, and no home: the environment's variables.

    PyTensor would not be imported without a folder of its own.
    """
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "site" / PACKAGE.name, ignore=ignored)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "home").mkdir()
    for path in [tmp_path / "home", *(tmp_path / "site").rglob("*"), tmp_path / "site"]:
        path.chmod(0o555)
    yield {
        "PYTHONPATH": str(tmp_path / "site"),
        "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'tmp' / 'pytensor'}",
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "home" / "cache"),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    for path in [tmp_path / "home", tmp_path / "site", *(tmp_path / "site").rglob("*")]:
        path.chmod(0o755)


IMPORT = """
    import numpy as np
    import pymc_flymc
    from pymc_flymc.kernels.dark_rates import _total_kernel
    print(pymc_flymc.__file__, _total_kernel(np.dtype("float64")).stats.cache_path, sep="\\n")
"""


def test_nowhere_to_write(container, tmp_path):
    """PyTensor's folder, without which it is not imported either."""
    result = python(IMPORT, container, tmp_path)
    assert result.returncode == 0, result.stderr
    file, path = result.stdout.split()
    assert file.startswith(container["PYTHONPATH"])
    assert Path(path).is_relative_to(tmp_path / "tmp" / "pytensor")
    assert len(list(Path(path).glob("*.nbi"))) == 1 and not result.stderr


@pytest.mark.slow
def test_a_folder_that_is_named(container, tmp_path):
    folder = tmp_path / "tmp" / "named"
    result = python(IMPORT, container | {"NUMBA_CACHE_DIR": str(folder)}, tmp_path)
    assert result.returncode == 0 and not result.stderr, result.stderr
    assert Path(result.stdout.split()[1]).parent == folder


MODEL = """
    import numpy as np
    import pymc as pm
    from pymc_flymc import FireflyMH, JaakkolaJordan

    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    with pm.Model():
        beta = pm.Normal("beta", shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=rng.integers(2, size=500))
        step = FireflyMH(bound=JaakkolaJordan())
        found = pm.sample(20, tune=20, chains=1, cores=1, step=step, random_seed=0,
                          progressbar=False, compute_convergence_checks=False)
    print(found.posterior["beta"].values.tolist())
"""


@pytest.mark.slow
def test_four_processes_fill_one_empty_cache(tmp_path):
    """They end, and have compiled the same."""
    env = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'pytensor'}",
        "PYTHONPATH": str(PACKAGE.parent),
    }
    command = [sys.executable, "-c", textwrap.dedent(MODEL)]
    running = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    # Each compiles for some two minutes of processor time.
    outputs = {process.communicate(timeout=1800)[0] for process in running}
    assert all(process.returncode == 0 for process in running)
    assert len(outputs) == 1 and outputs.pop()
