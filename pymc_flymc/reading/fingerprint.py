"""Detection of changes of a model and its data after they were read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pymc as pm
from pymc.model.core import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_flymc.compat.pymc import CustomDistRV, CustomSymbolicDistRV
from pymc_flymc.graphs.content_hash import (
    arrays_of,
    content_hash,
    file_of_map,
    leaves_of,
    owner_of,
    state_of_map,
    structure_of,
)


@dataclass(frozen=True)
class Fingerprint:
    """A model's variables and the data that their graphs hold: constants and shared variables.

    Data count as changed if another array has replaced them, as ``pm.set_data`` does, or if they
    were changed in place. `content_hash` detects changes in place, in a pass at the speed of
    memory. For a read-only memory map of a file it reads only a sample of rows, and the file's size
    and time of change are compared.
    """

    model: Model
    #: The model's random variables, their value variables, and potentials.
    variables: tuple[Variable, ...]
    #: Arrays of each constant and shared variable, hashes, and the states of files that they map.
    data: dict[Variable, list[tuple[np.ndarray, bytes, tuple[int, int] | None]]]
    #: For rows out of core: returns a value that changes with them, such as `rows`.
    identity: Callable[[], bytes] | None = None
    rows: bytes = b""

    @classmethod
    def of(cls, model: Model, identity: Callable[[], bytes] | None = None) -> Fingerprint:
        """Return the fingerprint of a model as it is now, in a pass over its data."""
        variables = _variables(model)
        data = {
            leaf: [(array, _content(array), _state(array)) for array in arrays_of(leaf)]
            for leaf in leaves_of(_graphs(model))
        }
        return cls(model, variables, data, identity, b"" if identity is None else identity())

    def matches(self, in_place: bool) -> bool:
        """Return whether model and data are the same, in a pass over the data if `in_place`."""
        now = _variables(self.model)
        if len(now) != len(self.variables) or any(
            a is not b for a, b in zip(now, self.variables, strict=True)
        ):
            return False
        for leaf, before in self.data.items():
            arrays = list(arrays_of(leaf))
            if len(arrays) != len(before):
                return False
            for array, (old, content, state) in zip(arrays, before, strict=True):
                if array is not old:
                    return False
                if in_place and (_state(array) != state or _content(array) != content):
                    return False
        return self.identity is None or not in_place or self.identity() == self.rows

    @cached_property
    def content_hash(self) -> str:
        """Return a hash of the data's content, the same in each process."""
        # The order of the graph is the same in each process. Two containers that swap their arrays
        # are different data. Files are hashed completely: another process cannot detect changes
        # outside of a sample in any other way, and a script that writes its file again changes the
        # file's time, but not its data.
        hashes = [
            content_hash(array, sampled=False) if _is_sampled(array) else content
            for parts in self.data.values()
            for array, content, _ in parts
        ]
        return blake2b(b"".join([*hashes, self.rows]), digest_size=16).hexdigest()

    @property
    def structure(self) -> str:
        """Return an identifier of the model without its data, the same in each process."""
        return structure_of(_graphs(self.model))


def _is_sampled(array: np.ndarray) -> bool:
    """Return whether an array maps a file for reading: then the file's state is compared."""
    owner = owner_of(array)
    return isinstance(owner, np.memmap) and not owner.flags.writeable


def _content(array: np.ndarray) -> bytes:
    return content_hash(array, sampled=_is_sampled(array))


def _state(array: np.ndarray) -> tuple[int, int] | None:
    path = file_of_map(array) if _is_sampled(array) else None
    with suppress(FileNotFoundError):  # a file may be deleted once it is mapped
        return None if path is None else state_of_map(path)
    return None


def _graphs(model: Model) -> list[Variable]:
    return [*_variables(model), *_transforms(model), *_custom_densities(model)]


def _transforms(model: Model) -> list[Variable]:
    """Return back-transformed variables: limits of an interval, say, are in no other graph."""
    return [
        transform.backward(model.rvs_to_values[rv], *rv.owner.inputs)
        for rv, transform in model.rvs_to_transforms.items()
        if transform is not None
    ]


def _custom_densities(model: Model) -> list[TensorVariable]:
    """Return graphs of user-written log densities: they may hold data that variables do not."""
    found: list[TensorVariable] = []
    for rv in model.basic_RVs:
        if isinstance(rv.owner.op, CustomDistRV | CustomSymbolicDistRV):
            with suppress(NotImplementedError):  # it can be drawn, but has no density
                found.append(pm.logp(rv, model.rvs_to_values[rv], warn_rvs=False))
    return found


def _variables(model: Model) -> tuple[Variable, ...]:
    values = [model.rvs_to_values[rv] for rv in model.basic_RVs]
    return (*model.basic_RVs, *values, *model.potentials)
