"""Which combinations are proved: of family, form, bound, kernel and resampling, chosen by a seed.

All are made from the registries. There are too many for an hour: of each way in which a model
writes a family one form is taken, and of that those combinations whose pairs (bound and kernel,
kernel and resampling, family and kernel, and so on) were not among those taken before.
"""

import dataclasses
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations as pairs_of

from pymc_flymc import ExplicitResampling, UnsupportedModelError
from tests.sweep.combinations import Combination, combinations_of
from tests.sweep.models import MODELS, TinyModel
from tests.sweep.moves import SCHEMES

__all__ = ["chosen", "combination_of", "valid_combinations"]

#: For kernels that have no choice of it, or a setting of their own.
OWN = "own"
#: Each row with a probability of its own.
DEFAULT = "by-row"


def chosen(seed: int, each: int) -> Iterator[list[Combination]]:
    """Yield combinations, so many of each way to write a family; those of a model together."""
    known: set[tuple[int, str, str, str]] = set()
    for written in sorted({name.split("/")[0] for name in MODELS}):
        waiting = _of_one_form(seed, written)
        taken: list[Combination] = []
        while waiting and len(taken) < each:
            # Kernels that draw brightness afresh have no schemes of resampling, and fewer pairs.
            fresh = [] if taken else [one for one in waiting if one.moves.fresh]
            best = max(fresh or waiting, key=lambda one: len(_pairs(one) - known))
            known |= _pairs(best)
            waiting.remove(best)
            taken.append(best)
        yield taken


def _of_one_form(seed: int, written: str) -> list[Combination]:
    """Return all combinations of a model that can be read, the first in the seed's own order."""
    forms = [
        model
        for name, model in MODELS.items()
        # Batches of proposals have no chain that begins where it is told to.
        if name.split("/")[0] == written and not model.form.elsewhere
    ]
    for model in sorted(forms, key=lambda model: _hash(seed, model.name)):
        with suppress(UnsupportedModelError):
            return sorted(valid_combinations(model), key=lambda one: _hash(seed, one.name))
    return []


def valid_combinations(model: TinyModel) -> Iterator[Combination]:
    """Yield those of the sweep, each with all schemes of resampling that it allows."""
    for one in combinations_of(model):
        takes = not (one.moves.fresh or one.bound in ("auto", None))
        if not takes or "brightness" in one.moves.settings:
            yield dataclasses.replace(one, name=f"{one.name}/{OWN}")
            continue
        for scheme, brightness in ({DEFAULT: None} | SCHEMES).items():
            if one.moves.of_groups and isinstance(brightness, ExplicitResampling):
                continue
            settings = one.moves.settings | {"brightness": brightness}
            moves = dataclasses.replace(one.moves, settings=settings)
            yield dataclasses.replace(one, name=f"{one.name}/{scheme}", moves=moves)


def combination_of(name: str) -> Combination:
    """Return a combination by its name."""
    model = MODELS["/".join(name.split("/")[:2])]
    (found,) = (one for one in valid_combinations(model) if one.name == name)
    return found


def _pairs(one: Combination) -> set[tuple[int, str, str, str]]:
    """Return pairs of what a combination is made of, by their places."""
    return {(i, str(j), a, b) for (i, a), (j, b) in pairs_of(enumerate(one.name.split("/")), 2)}


def _hash(seed: int, name: str) -> int:
    return zlib.crc32(f"{seed} {name}".encode())
