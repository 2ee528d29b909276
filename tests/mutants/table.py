"""All mutants, by module and what is wrong with it."""

from importlib import import_module

from tests.mutants.mutant import read

__all__ = ["MUTANTS"]

_TABLES = (
    "brightness",
    "densities",
    "out_of_core",
    "expansions",
    "far_out",
    "guards",
    "local_sweeps",
    "log_links",
    "moves",
    "native",
    "others",
    "parts",
    "quadratic_bounds",
    "rows",
    "stated",
    "taken_rows",
    "trajectories",
)
MUTANTS = {
    f"{mutant.file.removesuffix('.py')}: {mutant.name}": mutant
    for table in _TABLES
    for mutant in read(import_module(f"tests.mutants.{table}").MUTANTS)
}
