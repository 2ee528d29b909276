"""Tests of `pymc_flymc.anchor`."""
