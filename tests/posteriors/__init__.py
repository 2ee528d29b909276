"""Draws of whole steps, and of chains, follow the exact posterior."""
