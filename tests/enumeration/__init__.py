"""Exact transition matrices of the kernels, by enumeration of their random choices."""
