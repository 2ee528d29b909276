"""Tests of `pymc_flymc.bounds`."""
