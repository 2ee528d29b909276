"""Run checks, each in a fork of one process that has imported PyMC already; started by the tests.

``NUMBA_DISABLE_JIT=1 python server.py`` reads requests from its input, a line of JSON each: the
script, its argument, and the folder of the package to check, which is imported afresh. It answers
with a line of JSON: the return code (2 if the package comes from elsewhere), output and errors.
"""

import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import pymc_flymc
import pymc_flymc.steps  # and all that they need

TIMEOUT = 300  # seconds


def check(script: str, argument: str, folder: str) -> int:
    """Run the script on the package in the folder; return its return code."""
    for name in [name for name in sys.modules if name.split(".")[0] == pymc_flymc.__name__]:
        del sys.modules[name]
    sys.path[:0] = [folder, str(Path(script).parent)]
    found = importlib.import_module(pymc_flymc.__name__).__file__
    if found is None or not Path(found).is_relative_to(folder):
        print(f"{found} is not in {folder}", file=sys.stderr)
        return 2
    sys.argv = [script, argument]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def answer(request: list[str]) -> dict:
    """Fork, check, and collect what was printed."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = os.fork()
        if child == 0:
            signal.alarm(TIMEOUT)
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            code = 2
            try:
                code = check(*request)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        errors.seek(0)
        code, said = os.waitstatus_to_exitcode(status), errors.read()
        if code == -signal.SIGALRM:
            said += f"no verdict within {TIMEOUT} seconds"
        return {"returncode": code, "stdout": output.read(), "stderr": said}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
