"""Tests of `pymc_flymc.steps`."""
