"""Whether a model and its data are still what they were when they were read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from pymc.model.core import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs
from scipy.sparse import issparse

from pymc_flymc.shared import is_mapped

__all__ = ["Fingerprint", "arrays_of", "digest_of"]

#: Arrays of up to so many bytes are hashed as they are, larger ones by sums over blocks.
HASHED = 1 << 24
#: Bytes of a block.
BLOCK = 1 << 13
#: Bytes that are summed at a time.
CHUNK = 1 << 26
#: Rows of a memory-mapped array that are looked at.
SAMPLE = 1000


@dataclass(frozen=True)
class Fingerprint:
    """A model's variables and the data that their graphs hold: constants and shared variables.

    Data count as changed if other memory has come in their place, as ``pm.set_data`` does it, or
    if their content has changed in place. The latter is told by a hash, for arrays beyond 16 MB by
    sums of 8 kB each, so that a pass at the speed of memory tells. It is blind to values that
    change their places within 8 kB of such an array. Of arrays that are memory maps of files a
    sample of rows is looked at.

    Attributes
    ----------
    model : Model
    variables : tuple of Variable
        Those of the model's random variables, their values, and potentials.
    data : dict
        The arrays that each constant and shared variable consisted of, and their digests.
    """

    model: Model
    variables: tuple[Variable, ...]
    data: dict[Variable, list[tuple[np.ndarray, bytes]]]

    @classmethod
    def of(cls, model: Model) -> Fingerprint:
        """Take the fingerprint of a model as it is now, in a pass over its data."""
        variables = _variables(model)
        data = {
            leaf: [(array, digest_of(array)) for array in arrays_of(leaf)]
            for leaf in graph_inputs(variables)
        }
        return cls(model, variables, data)

    def matches(self, in_place: bool) -> bool:
        """Whether the model and its data are still the same.

        Parameters
        ----------
        in_place : bool
            Look for values written into the same memory, too: a pass over the data.
        """
        now = _variables(self.model)
        if len(now) != len(self.variables) or any(
            a is not b for a, b in zip(now, self.variables, strict=True)
        ):
            return False
        for leaf, before in self.data.items():
            arrays = list(arrays_of(leaf))
            if len(arrays) != len(before):
                return False
            for array, (old, digest) in zip(arrays, before, strict=True):
                if array is not old or (in_place and digest_of(array) != digest):
                    return False
        return True

    @property
    def digest(self) -> str:
        """A name of the data's content, the same in each process."""
        digests = sorted(digest for parts in self.data.values() for _, digest in parts)
        return blake2b(b"".join(digests), digest_size=16).hexdigest()


def _variables(model: Model) -> tuple[Variable, ...]:
    values = [model.rvs_to_values[rv] for rv in model.basic_RVs]
    return (*model.basic_RVs, *values, *model.potentials)


def arrays_of(leaf: Variable) -> Iterator[np.ndarray]:
    """Yield the arrays that a constant or a shared variable consists of, not copies of them."""
    data: Any = None
    if isinstance(leaf, Constant):
        data = leaf.data
    elif isinstance(leaf, SharedVariable):
        data = leaf.get_value(borrow=True)
    if issparse(data):
        yield from (data.data, data.indices, data.indptr)
    elif isinstance(data, np.ndarray):
        yield data


def digest_of(array: np.ndarray) -> bytes:
    """Hash of an array's shape, type and content."""
    found = blake2b(repr((array.shape, array.dtype.str)).encode(), digest_size=16)
    if is_mapped(array):
        step = max(1, len(array) // SAMPLE) if array.ndim else 1
        found.update(np.ascontiguousarray(array[::step] if array.ndim else array))
    elif array.nbytes <= HASHED:
        found.update(np.ascontiguousarray(array))
    else:
        for words, rest in _pieces(array):
            found.update(np.add.reduce(words.reshape(-1, BLOCK // 8), axis=1))
            found.update(rest)
    return found.digest()


def _pieces(array: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Cut an array into vectors of whole blocks of uint64, each with the bytes that are left."""
    # In the order of memory, so that only an array with gaps is copied, a piece at a time.
    if array.flags.f_contiguous:
        array = array.T
    step = max(1, CHUNK * len(array) // array.nbytes)
    for start in range(0, len(array), step):
        octets = np.ascontiguousarray(array[start : start + step]).reshape(-1).view(np.uint8)
        whole = len(octets) // BLOCK * BLOCK
        yield octets[:whole].view(np.uint64), octets[whole:]
