"""The public originals of the paper's data, fetched and prepared.

MNIST comes from OpenML by scikit-learn, CIFAR-10 from its authors' site. Of the paper's molecules
there is no public file: a table of molecules is read from the user's disk.
"""

from __future__ import annotations

import io
import tarfile
import urllib.request
from pathlib import Path

import numpy as np

__all__ = [
    "components",
    "fetch_cifar",
    "fetch_mnist",
    "prepare_cifar",
    "prepare_mnist",
    "read_cifar",
    "read_molecules",
    "standardised",
    "without_collinear",
]

#: The binary version: plain bytes, while that for Python are pickles, which may run code.
CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
MNIST = "mnist_784"
#: A record of CIFAR-10: a label, and 32 x 32 pixels in three colours.
RECORD = 1 + 3072
TRAINING_IMAGES = 60_000
#: Columns that a table of molecules may have beside its features.
TARGET, SMILES = "PCE", "smiles"


def fetch_mnist() -> tuple[np.ndarray, np.ndarray]:
    """Fetch MNIST from OpenML, and keep the sevens and nines of the training images.

    Raises
    ------
    ImportError
        Without scikit-learn.
    OSError
        Without network.
    """
    from sklearn.datasets import fetch_openml

    print(f"fetching {MNIST} from OpenML (some 20 MB; scikit-learn keeps it)", flush=True)
    images, labels = fetch_openml(MNIST, version=1, return_X_y=True, as_frame=False)
    return prepare_mnist(images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES])


def prepare_mnist(
    images: np.ndarray, labels: np.ndarray, n_components: int = 50
) -> tuple[np.ndarray, np.ndarray]:
    """Return principal components of the sevens and nines, and whether each is a nine.

    Parameters
    ----------
    images : ndarray, shape (n, 784)
        Pixels from 0 to 255.
    labels : ndarray, shape (n,)
        Digits, as numbers or strings.
    n_components : int
    """
    digits = np.asarray(labels).astype(int)
    chosen = (digits == 7) | (digits == 9)
    pixels = np.asarray(images)[chosen] / 255.0
    return components(pixels, n_components), (digits[chosen] == 9).astype(np.int8)


def fetch_cifar() -> tuple[np.ndarray, np.ndarray]:
    """Fetch CIFAR-10, and keep airplanes, automobiles and birds of all 60,000 images.

    Raises
    ------
    OSError
        Without network.
    """
    print(f"fetching {CIFAR} (some 160 MB)", flush=True)
    with urllib.request.urlopen(CIFAR, timeout=30) as answer:
        return prepare_cifar(*read_cifar(answer.read()))


def read_cifar(archive: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels, shape (n, 3072), and labels, from the bytes of the archive."""
    records = []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            file = tar.extractfile(member) if member.name.endswith(".bin") else None
            if file is not None:
                records.append(np.frombuffer(file.read(), np.uint8).reshape(-1, RECORD))
    if not records:
        raise OSError("the archive has no batches of CIFAR-10")
    together = np.concatenate(records)
    return together[:, 1:], together[:, 0]


def prepare_cifar(
    pixels: np.ndarray, labels: np.ndarray, n_features: int = 256
) -> tuple[np.ndarray, np.ndarray]:
    """Return binary features of the first three classes, and the class of each image.

    The features stand in for those of the paper, from a deep autoencoder: signs, relative to the
    median, of the leading principal components.
    """
    chosen = labels < 3
    scores = components(pixels[chosen].astype(np.float32) / 255.0, n_features)
    return (scores > np.median(scores, axis=0)).astype(np.int8), labels[chosen].astype(np.int8)


def read_molecules(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a table of molecules, with the column ``PCE`` to be predicted.

    All its other columns that are numbers are features. If there are none but a column ``smiles``,
    as in the table of the Harvard Clean Energy Project, they are RDKit's descriptors of the
    molecule. Features that do not vary, or are not finite, are dropped, and all are standardised.

    Raises
    ------
    ImportError
        If descriptors are needed and RDKit is missing.
    OSError
        If there is no such table.
    """
    import pandas as pd

    table = pd.read_csv(path)
    if TARGET not in table:
        raise OSError(f"{path} has no column {TARGET}")
    y = table.pop(TARGET).to_numpy(np.float64)
    features = table.select_dtypes("number").to_numpy(np.float64)
    if not features.shape[1]:
        if SMILES not in table:
            raise OSError(f"{path} has neither features nor a column {SMILES}")
        features = _descriptors(table[SMILES].tolist())
    good = np.all(np.isfinite(features), axis=0) & (np.ptp(features, axis=0) > 0)
    return standardised(features[:, good]), standardised(y)


def _descriptors(smiles: list[str]) -> np.ndarray:
    """All of RDKit's descriptors, shape (n, F), NaN where there is none."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    print(f"computing descriptors of {len(smiles):,} molecules", flush=True)
    rows = [Descriptors.CalcMolDescriptors(Chem.MolFromSmiles(text)) for text in smiles]
    return np.array([list(row.values()) for row in rows], dtype=np.float64)


def without_collinear(X: np.ndarray, most: float = 10.0) -> np.ndarray:
    """Drop standardised columns until no variance inflation factor exceeds `most`.

    The one that the others explain best goes first. Isotropic proposals cannot move along
    directions that are a thousand times narrower than others.
    """
    kept = np.arange(X.shape[1])
    correlation = np.corrcoef(X.T) + 1e-10 * np.eye(X.shape[1])  # of equal columns one is dropped
    while True:
        factors = np.diag(np.linalg.inv(correlation[np.ix_(kept, kept)]))
        if factors.max() <= most:
            return X[:, kept]
        kept = np.delete(kept, np.argmax(factors))


def components(X: np.ndarray, n: int) -> np.ndarray:
    """Scores of the n leading principal components, shape (N, n)."""
    X = X - X.mean(axis=0)
    if len(X) < X.shape[1]:
        values, scores = np.linalg.eigh(X @ X.T)
        return (scores * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :n]
    _, vectors = np.linalg.eigh(X.T @ X)
    return X @ vectors[:, ::-1][:, :n]


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean zero and sd one, float64."""
    X = np.asarray(X, dtype=np.float64)
    return (X - X.mean(axis=0)) / X.std(axis=0)
