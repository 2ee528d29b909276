"""Refusals of models, and the places in the package that make them."""

import ast
import sys
from pathlib import Path

import pytest

import pymc_flymc
from pymc_flymc import UnsupportedModelError

PACKAGE = Path(pymc_flymc.__file__).parent


def _of_file(path):
    """Places in a file that make the error, by their lines; of several in a function the number."""
    found, many = {}, {}

    def visit(node, names):
        named = isinstance(node, ast.FunctionDef | ast.ClassDef)
        names = [*names, node.name] if named else names
        function = getattr(node, "func", None)
        if isinstance(node, ast.Call) and getattr(function, "id", "") == "UnsupportedModelError":
            name = f"{path.name}:{'.'.join(names)}"
            many[name] = many.get(name, 0) + 1
            found[node.lineno] = name if many[name] == 1 else f"{name} {many[name]}"
        for child in ast.iter_child_nodes(node):
            visit(child, names)

    visit(ast.parse(path.read_text()), [])
    return found


def places(*folders):
    """Places that make the error in folders of the package, such as "model.py:read_model 2"."""
    files = (path for folder in folders for path in (PACKAGE / folder).rglob("*.py"))
    return {name for path in files for name in _of_file(path).values()}


def refusal(call):
    """Return the message with which a call is refused, and the place that it comes from."""
    made, make = {}, UnsupportedModelError.__init__

    def record(self, message):
        frame = sys._getframe(1)
        make(self, message)
        made[str(self)] = Path(frame.f_code.co_filename), frame.f_lineno

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnsupportedModelError, "__init__", record)
        with pytest.raises(UnsupportedModelError) as caught:
            call()
    path, line = made[str(caught.value)]
    return str(caught.value), _of_file(path)[line]
