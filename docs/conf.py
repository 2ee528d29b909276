"""Sphinx configuration: `sphinx-build -W docs docs/_build`."""

from importlib.metadata import version as installed_version

project = "pymc-flymc"
author = "pymc-flymc developers"
copyright = f"2026, {author}"
release = version = installed_version("pymc-flymc")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"pymc-flymc {release}"

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_default_options = {"members": True}
# Attributes and methods are listed by autodoc itself.
numpydoc_show_class_members = False
