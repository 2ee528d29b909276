"""Private parts of ArviZ."""

from pymc_flymc.compat import private

__all__ = ["psislw"]

#: Pareto smoothed log weights of an array, and their tail index.
psislw = private(
    "arviz_stats.base:array_stats.psislw", "chains do not know of proposals with heavy tails"
)
