"""Mutants of kernels and bounds, each a change of one line: tests are to fail for each."""
