"""Rows of a logistic regression with one coefficient, for what is enumerated."""

import numpy as np


def log_likelihood_of(y, eta):
    """Log-likelihood of each row."""
    return y * eta - np.logaddexp(0.0, eta)


def expansion_of(x, y, anchor, eta):
    """Second-order Taylor expansion of each row's log-likelihood at the anchor."""
    at = x * anchor
    p, u = 1.0 / (1.0 + np.exp(-at)), eta - at
    return log_likelihood_of(y, at) + (y - p) * u - 0.5 * p * (1.0 - p) * u**2
