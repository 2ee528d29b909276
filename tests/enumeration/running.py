"""Run checks of a package in a folder, in forks of a process that has imported PyMC already."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pymc_flymc

__all__ = ["PACKAGE", "SCHEMES", "Server"]

HERE = Path(__file__).parent
PACKAGE = Path(pymc_flymc.__file__).parent
#: By script, what it enumerates or compares: its argument.
SCRIPTS = {
    "check.py": (
        "implicit-by-row",
        "implicit-single-q",
        "with-replacement",
        "without-replacement",
        "full-sweep",
        "cycle",
        "two-likelihoods",
        "two-likelihoods-cycle",
        "pcn",
    ),
    "check_joint.py": (
        "independent",
        "walk",
        "joint-moved",
        "independent-kept",
        "walk-kept",
        "joint-moved-kept",
    ),
    "check_surrogate.py": (
        "surrogate",
        "surrogate-twice",
        "surrogate-walk",
        "surrogate-moved",
    ),
    "check_reference.py": (
        "hamiltonian",
        "langevin",
        "hamiltonian-two",
        "hamiltonian-following",
        "slice",
        "slice-random",
        "slice-two",
        "slice-few-extensions",
        "rescaling",
        "rescaling-following",
        "rescaling-surrogate",
        "surrogate-following",
    ),
    "check_batches.py": ("one-batch", "two-batches"),
    "check_parts.py": (
        "parts",
        "parts-kept",
        "parts-shifts",
        "parts-adjusted",
        "parts-kept-adjusted",
        "parts-shifts-adjusted",
        "parts-dense-adjusted",
    ),
    "check_local.py": ("local-globals", "local-effects", "local-wide", "local-brightness"),
}
#: The script of each of these.
SCHEMES = {scheme: HERE / script for script, all_of in SCRIPTS.items() for scheme in all_of}


class Server:
    """A process that forks for each check; see `enumeration.server`.

    Parameters
    ----------
    native : bool
        Whether kernels are compiled. Else they are Python, in which their branches can be followed.
    """

    def __init__(self, native: bool) -> None:
        environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
        if not native:
            environment["NUMBA_DISABLE_JIT"] = "1"
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            env=environment,
            cwd=PACKAGE.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, script: Path, argument: str, folder: Path) -> Any:
        """Run a script on the package in a folder; return its return code and what it printed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(script), argument, str(folder)]) + "\n")
        self._process.stdin.flush()
        return SimpleNamespace(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()
