"""Compile all kernels and keep them on disk: `python -m pymc_flymc.warmup`.

For images and continuous integration, where the first model would otherwise wait for its kernels
to compile.
"""

import time

import numpy as np

from pymc_flymc.sampling.adaptation import KERNELS

#: Numbers of likelihoods in a model. A kernel is compiled for each.
LIKELIHOODS = (1, 2)


def warm_up() -> None:
    """Compile each kernel for both types of designs, and print the seconds that it takes.

    What is on disk already is loaded. Some kernels are for one likelihood only.
    """
    for name, spec in KERNELS.items():
        for n_likelihoods in LIKELIHOODS if spec.for_several else (1,):
            for dtype in (np.dtype(np.float64), np.dtype(np.float32)):
                began = time.perf_counter()
                spec.compiled(dtype, n_likelihoods)
                seconds = time.perf_counter() - began
                print(f"{name}, {n_likelihoods} x {dtype}: {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    warm_up()
