"""Tests of `pymc_flymc.likelihoods`."""
