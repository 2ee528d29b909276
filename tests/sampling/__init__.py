"""Tests of `pymc_flymc.sampling`."""
