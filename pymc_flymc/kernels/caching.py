"""Keys under which native code is kept on disk, and the folder in which it is kept."""

from __future__ import annotations

import atexit
import functools
import hashlib
import multiprocessing
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from pymc_flymc.compat.numba import UserProvidedCacheLocator, add_locator
from pymc_flymc.reporting import log

PACKAGE = Path(__file__).parents[1]
#: Settings of numba that change what it compiles, but are not part of its own cache keys.
FLAGS = (
    "BOUNDSCHECK",
    "DEBUGINFO_DEFAULT",
    "ENABLE_PROFILING",
    "EXTEND_VARIABLE_LIFETIMES",
    "LLVM_REFPRUNE_PASS",
    "LLVM_REFPRUNE_FLAGS",
    "LOOP_VECTORIZE",
    "OPT",
    "SLP_VECTORIZE",
    "USING_SVML",
)
#: When this process loaded the package.
LOADED = time.time()
#: Imports from the package. (Modules in its top folder check and report: none of them is compiled.)
_IMPORT = re.compile(rf"^\s*(?:from|import)\s+{PACKAGE.name}\.(\w+(?:\.\w+)*)", re.MULTILINE)


@functools.cache
def environment() -> str:
    """Return what compiled code depends on that neither sources nor numba's own keys contain."""
    versions = llvmlite.__version__, np.__version__, version("pytensor")
    return repr((*versions, *(getattr(numba.config, flag, None) for flag in FLAGS)))


@functools.cache
def version_of(file: str) -> int:
    """Return a number for everything that native code of a file, `__file__`, is compiled from.

    Numba notices a change in the file of a cached function, but not in the files of functions that
    it inlines. So the number covers all files of the package that the file imports, directly or
    indirectly. Files that are newer than this process, after an upgrade, are not the code that it
    runs. The number is then random: old code must not be kept under the key of the new files.
    """
    found, new = set(), {Path(file)}
    while new:
        found |= new
        new = {other for path in new for other in _imported(path)} - found
    digest = hashlib.sha256(environment().encode())
    for path in sorted(found):
        digest.update(path.read_bytes() if path.exists() else b"")
        if path.exists() and _changed(path) > LOADED:
            digest.update(os.urandom(16))
    # Keys of operations are integers of 64 bits.
    return int(digest.hexdigest()[:15], 16)


def _changed(path: Path) -> float:
    """Return when a file was written, or put in its place: installers may keep the first date."""
    found = path.stat()
    return max(found.st_mtime, found.st_ctime)


@functools.cache
def _imported(path: Path) -> frozenset[Path]:
    """Return the package's files that a file imports from; for a folder, all files in it."""
    if not path.exists():  # a frozen application: numba looks at the executable
        return frozenset()
    found: set[Path] = set()
    for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
        place = PACKAGE.joinpath(*name.split("."))
        file = place.with_suffix(".py")
        found |= {file} if file.exists() else set(place.rglob("*.py"))
    return frozenset(file for file in found if file.parent != PACKAGE)


class _InTemporaryFolder(UserProvidedCacheLocator):
    """Keep compiled code elsewhere if neither the package's folder nor a home can be written to."""

    # Without it numba would raise an error when a cached function is defined, which is on import.

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = str(_temporary_folder() / self.get_suitable_cache_subpath(py_file))

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _InTemporaryFolder | None:
        """Return where a function is kept, or None if it does not belong to the package."""
        if not Path(py_file).is_relative_to(PACKAGE):
            return None
        locator = cls(py_func, py_file)
        locator.ensure_cache_path()
        return locator


add_locator(_InTemporaryFolder)


@functools.cache
def _temporary_folder() -> Path:
    """Return a folder that only this user can write to, the same one each time, and log it."""
    # If somebody else has a folder of that name, it is a new one, removed when Python ends.
    user = os.getuid() if hasattr(os, "getuid") else None
    path = Path(tempfile.gettempdir(), f"pymc-flymc-{user}")
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    # Users who can write to the folder could make this user run their code.
    open_to_others = user is not None and (found.st_uid != user or found.st_mode & 0o022 != 0)
    if open_to_others or not stat.S_ISDIR(found.st_mode):
        path = Path(tempfile.mkdtemp(prefix="pymc-flymc-"))
        atexit.register(shutil.rmtree, path, ignore_errors=True)
    if multiprocessing.parent_process() is None:
        log.warning(
            f"compiled code is kept in {path}, for neither the package's folder nor one at home "
            "can be written to; the environment variable NUMBA_CACHE_DIR names another"
        )
    return path
