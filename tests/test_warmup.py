"""All kernels can be compiled in advance."""

from dataclasses import replace
from inspect import signature

import numpy as np

from pymc_flymc import warmup
from pymc_flymc.sampling.adaptation import KERNELS


def test_every_kernel_is_compiled(monkeypatch, capsys):
    compiled = []

    def kernel(name):
        def run_kernel(*arguments):
            signature(KERNELS[name].run_kernel).bind(*arguments)
            compiled.append((name, *arguments))

        return replace(KERNELS[name], run_kernel=run_kernel)

    monkeypatch.setattr(warmup, "KERNELS", {name: kernel(name) for name in KERNELS})
    warmup.warm_up()
    dtypes = [np.dtype(np.float64), np.dtype(np.float32)]
    of_one = [(name, dtype) for name in KERNELS for dtype in dtypes]
    of_two = [
        (name, dtype, 2) for name in ("metropolis", "hamiltonian", "slice") for dtype in dtypes
    ]
    assert len(compiled) == len(of_one + of_two) == capsys.readouterr().out.count("\n")
    assert set(compiled) == set(of_one + of_two)
