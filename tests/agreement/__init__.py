"""Tests of the comparison with the model itself."""
