"""Tests of `pymc_flymc.checkpoint`."""
