"""Comparison of what a step has read of a model with the model itself, before it samples."""
