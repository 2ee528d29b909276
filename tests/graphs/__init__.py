"""Tests of `pymc_flymc.graphs`."""
