"""Errors that this package raises on purpose."""


class UnsupportedModelError(ValueError):
    """The model is valid PyMC, but Firefly cannot sample it exactly; the message says why."""
