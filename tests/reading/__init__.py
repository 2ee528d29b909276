"""Tests of `pymc_flymc.reading`."""
