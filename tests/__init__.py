"""Tests; the folders are those of the package, and what crosses its layers."""

import gc

import pytest

# Before anything large is imported: graphs and compiled code are millions of small objects that
# mostly stay, and the collector of garbage would go through them again and again.
gc.set_threshold(1_000_000, 50, 100)

pytest.register_assert_rewrite("tests.support")
