"""A mutant, and the check that is to catch it."""

import compileall
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.enumeration.running import PACKAGE, SCHEMES, Server

__all__ = ["Mutant", "Rows", "copy_package", "read"]

#: By file: what is wrong with it, a piece of text, what takes its place, and the check.
Rows = Mapping[str, Sequence[tuple[str, str, str, str]]]
ONE_TEST = Path(__file__).parent / "one_test.py"


@dataclass(frozen=True)
class Mutant:
    """A change of one piece of a module.

    Attributes
    ----------
    name : str
        What is wrong with it.
    file : str
        In the package.
    original, changed : str
        The text, which is there once, and what takes its place.
    check : str
        What catches it: a scheme of `tests.enumeration`, or tests as pytest names them.
    """

    name: str
    file: str
    original: str
    changed: str
    check: str

    @property
    def is_enumerated(self) -> bool:
        """Whether kernels are followed along all of their branches."""
        return self.check in SCHEMES

    def apply(self, package: Path, folder: Path) -> None:
        """Make a copy of the package with this mutant in a folder."""
        mutated = folder / package.name
        # Links, for all but the one file that changes: what is compiled comes with them.
        shutil.copytree(package, mutated, copy_function=os.link)
        path = mutated / self.file
        source = path.read_text()
        if source.count(self.original) != 1:
            raise LookupError(f"mend the mutant {self.name!r}: {self.file} has changed")
        path.unlink()
        path.write_text(source.replace(self.original, self.changed))

    def is_caught(self, server: Server, folder: Path) -> tuple[bool, str]:
        """Return whether the check fails for the copy, by its own verdict, and what it printed."""
        script = SCHEMES.get(self.check, ONE_TEST)
        result = server.run(script, self.check, folder)
        printed = result.stdout + result.stderr
        # 1 is the verdict of the check itself; a mutant that merely crashed would prove nothing.
        if not self.is_enumerated:
            return result.returncode == 1, printed
        # An IndexError is what a set of bright rows with more members than rows comes to, a
        # KeyError a state that cannot be.
        words = "|pi P - pi|", "largest difference", "AssertionError", "IndexError", "KeyError"
        return result.returncode == 1 and any(word in printed for word in words), printed


def copy_package(folder: Path) -> Path:
    """Copy the package, with Python's bytecode: of a mutant one module alone is compiled again."""
    copy = folder / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.pyc"))
    compileall.compile_dir(copy, quiet=1)
    return copy


def read(table: Rows) -> list[Mutant]:
    """Return the mutants of a table."""
    return [
        Mutant(name, file, original, changed, check)
        for file, rows in table.items()
        for name, original, changed, check in rows
    ]
