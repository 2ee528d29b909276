"""Tests of `pymc_flymc.regression`."""
