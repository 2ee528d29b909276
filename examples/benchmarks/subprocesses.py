"""Fresh Python processes with BLAS pinned to one thread, watched while they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from examples.benchmarks.memory import PeakMemory

ROOT = Path(__file__).parents[2]
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")
}


def run(module: str, *arguments: str, **environment: str) -> int:
    """Run ``python -m module arguments`` and return its peak memory in bytes, descendants included.

    Raises
    ------
    subprocess.CalledProcessError
        If it fails. Its standard error goes to ours.
    """
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | ONE_THREAD | environment, stdout=subprocess.DEVNULL
    )
    with PeakMemory(process.pid) as memory:
        status = process.wait()
    if status:
        raise subprocess.CalledProcessError(status, command)
    return memory.peak_bytes


def result_of(module: str, *arguments: str, limit: float | None = None, **environment: str) -> Any:
    """Run ``python -m module arguments`` and return the JSON in the last line of its output.

    If it takes longer than a limit in seconds, this is ``{"over": limit}``.

    Raises
    ------
    RuntimeError
        If it fails, with its standard error.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        found = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | ONE_THREAD | environment,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return {"over": limit}
    if found.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{found.stderr}")
    return json.loads(found.stdout.splitlines()[-1])
