"""Tests of `pymc_flymc.target`."""
