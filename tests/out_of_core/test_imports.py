"""A first model in memory does not wait for what reads rows elsewhere, nor for plots."""

import subprocess
import sys

SCRIPT = """
import sys

import numpy as np
import pymc as pm

import pymc_flymc


def stray():
    modules = (name.split(".") for name in sys.modules)
    elsewhere = {".".join(m) for m in modules if m[0] in ("dask", "distributed", "zarr")}
    later = {"arviz", "matplotlib", "scipy.stats", "pytensor.xtensor", "nutpie", "bambi"}
    return elsewhere | {
        name
        for name in sys.modules
        if name in later or name.startswith("pymc_flymc.out_of_core")
    }


assert not stray(), stray()
x = np.linspace(-1.0, 1.0, 40)
with pm.Model() as model:
    beta = pm.Normal("beta", 0.0, 1.0)
    pm.Bernoulli("y", logit_p=beta * x, observed=(x > 0.1).astype(int))
    step = pymc_flymc.FireflyMH()
step.setup_chain(np.random.default_rng(0), 2, 2)
step.step(model.initial_point())
assert not stray(), stray()
"""


def test_a_first_model_imports_what_it_needs():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
