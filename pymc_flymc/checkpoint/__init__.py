"""Checkpoints of runs: what they keep in a folder, and how a killed run continues from it."""
