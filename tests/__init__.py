"""Tests; the folders are those of the package, and what crosses its layers."""

import pytest

pytest.register_assert_rewrite("tests.support")
