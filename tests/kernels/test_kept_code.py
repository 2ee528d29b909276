"""Compiled code that is kept on disk: what is broken, or of another version, is compiled again."""

import importlib.util
import pickle
import sys

import pytest
from numba import types
from numba.core import codegen, config

from pymc_flymc.kernels import native
from pymc_flymc.kernels.native import version_of

SOURCE = "def twice(x):\n    return 2.0 * x\n"


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """``compiled()`` compiles a function anew, or loads what is kept, as another process would."""
    monkeypatch.setattr(config, "CACHE_DIR", "")  # whatever NUMBA_CACHE_DIR is
    path = tmp_path / "kept.py"
    path.write_text(SOURCE)

    def compile_or_load():
        spec = importlib.util.spec_from_file_location("kept", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = native.kernel(types.float64(types.float64))(module.twice)
        assert found(2.5) == 5.0
        return sum(found.stats.cache_hits.values()), sum(found.stats.cache_misses.values())

    return compile_or_load


def files(folder, ending):
    return list((folder / "__pycache__").glob(f"*{ending}"))


def test_versions_and_signatures_have_names_of_their_own():
    """Of another version's cache numba would read types that may be gone."""

    def made(kind):
        def twice(x):
            return 2.0 * x

        native.kernel(kind(kind))(twice)
        return twice.__qualname__

    names = [made(kind) for kind in (types.float64, types.float32)]
    assert names[0] != names[1]
    assert all(f"{version_of(__file__):x}" in name for name in names)


def test_it_is_loaded(compiled):
    assert compiled() == (0, 1)
    assert compiled() == (1, 0)


@pytest.mark.filterwarnings("ignore:compiled code is not kept")
@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("what", ["nothing", "half", "something else", "no right to read"])
def test_files_that_cannot_be_read(compiled, tmp_path, ending, what):
    compiled()
    (path,) = files(tmp_path, ending)
    whole = path.read_bytes()
    if what == "no right to read":
        path.unlink()
        path.mkdir()  # whom nothing stops, root, cannot read it either
    else:
        broken = {"nothing": b"", "half": whole[: len(whole) // 2], "something else": b"\x80\x05K"}
        path.write_bytes(broken[what])
    assert compiled() == (0, 1)
    if what == "no right to read":
        path.rmdir()
        compiled()
    assert compiled() == (1, 0)


def test_another_version(compiled, tmp_path):
    compiled()
    (path,) = files(tmp_path, ".nbi")
    with path.open("rb") as file:
        pickle.load(file)
        rest = file.read()
    path.write_bytes(pickle.dumps("0.1", protocol=-1) + rest)
    assert compiled() == (0, 1)


def test_another_processor(compiled, monkeypatch):
    """As in a home that machines share: each has its own code, beside the others'."""
    compiled()
    with monkeypatch.context() as patch:
        patch.setattr(codegen.CPUCodegen, "magic_tuple", lambda self: ("other", "older", "-avx2"))
        assert compiled() == (0, 1)
        assert compiled() == (1, 0)
    assert compiled() == (1, 0)


def test_a_full_disk(compiled, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")  # not on Windows
    # Of modules that are imported meanwhile Python would keep files that are cut off.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.warns(RuntimeWarning, match="is not kept for the next time"):
            assert compiled() == (0, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not files(tmp_path, ".nbc") and not list((tmp_path / "__pycache__").glob("*.tmp.*"))
    compiled()
    assert compiled() == (1, 0)
