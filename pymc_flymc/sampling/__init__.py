"""Chains: their state, their tuning, and the choice of how they move."""
