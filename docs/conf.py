"""Sphinx configuration: `sphinx-build -W docs docs/_build/html`."""

import inspect
import os
import re
from importlib.metadata import version as installed_version
from typing import Protocol

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util.inspect import stringify_signature

project = "pymc-flymc"
author = "pymc-flymc developers"
copyright = f"2026, {author}"
release = version = installed_version("pymc-flymc")

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "data/README.md"]
html_theme = "furo"
html_title = f"pymc-flymc {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
# Formulas that browsers draw themselves: no script is fetched from anywhere.
html_math_renderer = "mathml"
# Names in single backticks are links, where something of this name is documented.
default_role = "py:obj"

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Pages with a kernel in their head are run when the site is built, again only if they have changed.
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

# A build needs no network: links into other projects' pages are made where one is asked for.
if os.environ.get("DOCS_INTERSPHINX"):
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "pymc": ("https://www.pymc.io/projects/docs/en/stable", None),
        "arviz": ("https://python.arviz.org/en/stable", None),
    }

autosummary_generate = True
autodoc_default_options = {"members": True}
# Defaults as they are written, not as they print.
autodoc_preserve_defaults = True
# Attributes and methods are listed by autodoc itself.
numpydoc_show_class_members = False


def true_signature(app, what, name, obj, options, signature, returned):
    """Return the signature of `__init__` where a base class has a `__new__` that hides it.

    Protocols are not made: they have none.
    """
    if what != "class" or signature != "(*args, **kwargs)":
        return None
    if Protocol in obj.__bases__:
        return "", None
    return stringify_signature(inspect.signature(obj), show_annotation=False), returned


#: Arguments without braces, such as those of `tfrac12` and `hat u_n`, which would be read wrongly,
#: and functions of what is not in brackets, which would stick to it.
ARGUMENT = r"\s*(\\[A-Za-z]+|[A-Za-z0-9]|\{[^{}]*\})"
REWRITTEN = {
    re.compile(r"\\([td]?frac)" + 2 * ARGUMENT): r"\\\1{\2}{\3}",
    re.compile(r"\\(hat|tilde|bar)" + ARGUMENT): r"{\\\1{\2}{}}",
    re.compile(r"\\(log|sin|cos)(?=\s+\w|\s*\\(?!left|[Bb]ig))"): r"\\\1\\,",
}


def mathml(formula, **settings):
    """Return a formula as browsers draw it."""
    for pattern, written in REWRITTEN.items():
        formula = pattern.sub(written, formula)
    return tex2mathml(formula, **settings)


def inline_math(translator, node):
    """Write a formula in a line."""
    translator.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def displayed_math(translator, node):
    """Write a formula by itself."""
    translator.body.append(f'<div class="math">{mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Have steps documented with their own parameters, and formulas as MathML."""
    app.add_html_math_renderer("mathml", (inline_math, None), (displayed_math, None))
    app.connect("autodoc-process-signature", true_signature)
