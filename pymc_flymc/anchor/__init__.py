"""Anchors, at which bounds are tuned, and the Laplace approximation there."""
