"""Tests of `pymc_flymc.sources`."""
