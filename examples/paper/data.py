"""The data of the three experiments: from a folder, from their public originals, or simulated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.paper import originals
from examples.paper.simulated import SIMULATED

__all__ = ["FILES", "Data", "load"]

#: Files that a folder given by the user may hold.
FILES = {"mnist": "mnist_7v9_pca50.npz", "cifar": "cifar3.npz", "molecules": "cep_opv_30k.npz"}


@dataclass(frozen=True)
class Data:
    """A regression's rows.

    Attributes
    ----------
    X : ndarray, shape (N, D), float64
        Features, the bias first.
    y : ndarray, shape (N,)
    source : str
        Where the rows are from, for tables and figures.
    simulated : bool
        Whether they stand in for the paper's.
    """

    X: np.ndarray
    y: np.ndarray
    source: str
    simulated: bool = False

    @classmethod
    def of(cls, features: np.ndarray, y: np.ndarray, source: str, simulated: bool = False) -> Data:
        """Put a bias in front of the features, shape (N, D - 1)."""
        X = np.column_stack([np.ones(len(features)), features]).astype(np.float64)
        return cls(X, y, source, simulated)

    def some(self, n_rows: int | None) -> Data:
        """Every k-th row, about `n_rows` of them; all rows if None."""
        if n_rows is None or n_rows >= len(self.y):
            return self
        rows = slice(None, None, len(self.y) // n_rows)
        source = f"{self.source}, {len(self.y[rows]):,} rows of them"
        return Data(self.X[rows], self.y[rows], source, self.simulated)


def load(name: str, folder: Path | None, table: Path | None = None) -> Data:
    """Return the data of an experiment.

    Taken from the folder if it has the experiment's file; else the public original is fetched, or
    read from a table of molecules that the user has; else they are simulated, which is said.

    Parameters
    ----------
    name : {"mnist", "cifar", "molecules"}
    folder : Path or None
        See `FILES`.
    table : Path or None
        CSV file of molecules, see `originals.read_molecules`.
    """
    if folder is not None and (folder / FILES[name]).exists():
        return _from_file(name, folder / FILES[name])
    try:
        if name == "molecules":
            if table is None:
                raise FileNotFoundError("no --molecules FILE: it is not a file that can be fetched")
            return _molecules(*originals.read_molecules(table), f"molecules of {table.name}")
        fetch = {"mnist": originals.fetch_mnist, "cifar": originals.fetch_cifar}[name]
        return Data.of(*fetch(), f"{name} as published, fetched")
    except (ImportError, OSError) as error:
        print(f"{name}: {error}\n{name}: simulated rows of the same shape stand in", flush=True)
    return Data.of(*SIMULATED[name](), "SIMULATED stand-in", simulated=True)


def _from_file(name: str, path: Path) -> Data:
    with np.load(path) as file:
        if name == "mnist":
            return Data.of(file["X"], file["y"], "MNIST 7 and 9, 50 components")
        if name == "cifar":
            bits = np.unpackbits(file["bits256_packed"], axis=1)
            return Data.of(bits, file["y"], "CIFAR-10, our own 256 binary features")
        X, y = originals.standardised(file["X"]), originals.standardised(file["y"])
        return _molecules(X, y, "Harvard Clean Energy Project, our own features")


def _molecules(X: np.ndarray, y: np.ndarray, source: str) -> Data:
    return Data.of(originals.without_collinear(X), y, source)
