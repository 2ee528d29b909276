"""What a run depends on, as texts that distinguish it from other runs."""

import inspect
import platform
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pymc_flymc.graphs.content_hash import content_hash, without_addresses
from pymc_flymc.kernels.native import map_fields
from pymc_flymc.reading.fingerprint import Fingerprint

#: Packages whose versions draws may depend on, to the last bit.
PACKAGES = "pymc-flymc", "pymc", "pytensor", "numba", "numpy", "scipy"
#: Settings of a step that do not affect its draws, or are part of the model and its data.
NO_MATTER = ("checkpoint", "client", "data", "model", "rng")
#: What a chain depends on: its seed, and all that the chains of a run share.
SEED, RUN = "random_seed", "model, data or settings"
#: Entries that are hashes, which messages do not show.
HASHED = "model", "data", SEED, RUN


def identity_of_run(
    step: type, vars: Sequence[Any], settings: Mapping[str, Any], fingerprint: Fingerprint
) -> dict[str, str]:
    """Return what all chains of a run depend on, by names that users know, from given settings."""
    found = {
        "step": step.__name__,
        "model": fingerprint.structure,
        "data": fingerprint.content_hash,
        "vars": ", ".join(str(getattr(each, "name", each)) for each in vars),
    }
    for name, parameter in inspect.signature(step).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and name not in NO_MATTER:
            found[name] = written(settings.get(name, parameter.default))
    python = {"version of Python": ".".join(platform.python_version_tuple()[:2])}
    return found | python | {f"version of {each}": version(each) for each in PACKAGES}


def identity_of_target(target: Any, adaptation: Any, others: np.ndarray) -> str:
    """Return a hash of numbers that chains share."""
    # They change in the last bit with the data of any row, and with the model's density: its graph
    # may have operations of the user's own, of which only the names can be compared. Without a
    # bound there are no sums over rows: then the rows are hashed, which each draw reads anyway.
    names = [type(adaptation).__name__, adaptation.spec.name, written(target.geometry._fields)]
    found = blake2b(digest_size=16)
    for part in target.parts:
        names += [written(part.bound), repr(part.expected_bright)]
        found.update(content_hash(part.statistics))
    for array in target.own_rows:
        found.update(content_hash(array, sampled=False))
    found.update(np.array(target.density_at_centre(others)).tobytes())
    map_fields(target.geometry, lambda array: found.update(content_hash(array)))
    found.update("\n".join(names).encode())
    return found.hexdigest()


def check_same(folder: Path, then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to continue a run, or a chain, that depends on something else than when it began."""
    differences = []
    for name in {**then, **now}:
        before, after = (each.get(name, "nothing") for each in (then, now))
        if before != after:
            seen = "" if name in HASHED else f" ({before} there, {after} here)"
            differences.append(name + seen)
    if differences:
        raise ValueError(
            f"checkpoint: {folder} is the folder of a run with other {', '.join(differences)}. "
            "Give another folder, or delete this one to start again"
        )


def written(value: Any) -> str:
    """Return a setting as text that is equal, in any process, for equal settings."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape} {content_hash(value).hex()}"
    if type(value).__repr__ is object.__repr__:  # such a repr contains an address, as of a bound
        return f"{type(value).__name__}({', '.join(_settings(value))})"
    return without_addresses(repr(value))


def _settings(value: Any) -> list[str]:
    return [f"{name}={written(each)}" for name, each in vars(value).items()]
