"""Tests of `pymc_flymc.kernels`."""
