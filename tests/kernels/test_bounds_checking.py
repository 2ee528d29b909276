"""Native code under numba's checks of indices: ``NUMBA_BOUNDSCHECK=1``.

The switch is no part of the names under which compiled code is kept: it needs places of its own.
To use it with a script of one's own, set the three variables below.
"""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_native_entries_read_no_array_past_its_end(tmp_path):
    environment = os.environ | {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "PYTENSOR_FLAGS": f"base_compiledir={tmp_path / 'pytensor'}",
    }
    script = [sys.executable, "-m", "tests.support.bounds_checked"]
    done = subprocess.run(script, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "all native entries stay within their arrays" in done.stdout
