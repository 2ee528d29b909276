"""Fixtures for the examples."""

import logging

import pytest


@pytest.fixture(autouse=True)
def levels_of_loggers():
    """What examples say less of, other tests are to hear."""
    loggers = [logging.getLogger(name) for name in ("pymc", "pymc.flymc")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
