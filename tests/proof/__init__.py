"""Exact draws stay exact, and nothing that is kept drifts."""
