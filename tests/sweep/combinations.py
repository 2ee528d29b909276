"""Which bounds and moves a model is sampled with: all that the registries allow."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pymc_flymc import FireflyMH, Taylor
from pymc_flymc.bounds import BOUNDS, is_for_joint_moves
from pymc_flymc.likelihoods.likelihood import Likelihood
from pymc_flymc.reading.model import read_model
from pymc_flymc.sampling.local_sweeps import TANGENTS
from tests.sweep.models import TinyModel
from tests.sweep.moves import MOVES, Moves

__all__ = ["Combination", "combinations_of"]


@dataclass(frozen=True)
class Combination:
    """A model, a bound and moves.

    Attributes
    ----------
    name : str
        ``family/form/bound/moves``.
    model : TinyModel
    bound : Bound, "auto", None or dict
        The setting of the step.
    moves : Moves
    """

    name: str
    model: TinyModel
    bound: Any
    moves: Moves

    @property
    def seed(self) -> int:
        """A number of its own, the same in each run."""
        return zlib.crc32(self.name.encode())

    def step(self) -> Any:
        """Return the step, built as a user builds it."""
        return self.moves(self.model.sampled, bound=self.bound, **self.model.data)


def combinations_of(model: TinyModel) -> Iterator[Combination]:
    """Yield the combinations of a model: each bound with each move that it allows.

    Moves that are not core ones take turns, from model to model and bound to bound; so do those
    without a bound, and the settings of bounds. Those for effects of groups meet each bound that
    they take, with schemes of resampling in turns.
    """
    with model.patches():
        regressions = read_model(model.whole).regressions
    (likelihood,) = [each.likelihood for each in regressions if each.name == "y"]
    several = len(regressions) > 1
    turn = zlib.crc32(model.name.encode())

    def of(bound_name: str, bound: Any, moves: str) -> Combination:
        if several and bound is not None:
            bound = {"y": bound}
        return Combination(f"{model.name}/{bound_name}/{moves}", model, bound, MOVES[moves])

    if model.form.elsewhere:
        for name, bound in _bounds(likelihood).items():
            if is_for_joint_moves(bound):
                yield of(name, bound, "joint")
        return
    core = [name for name, moves in MOVES.items() if moves.core]
    conditional = [name for name in core if not MOVES[name].fresh]
    further = [name for name, moves in MOVES.items() if not moves.core and not moves.of_groups]
    yield Combination(f"{model.name}/auto/auto", model, "auto", Moves(FireflyMH))
    yield of("none", None, conditional[turn % len(conditional)])
    for i, (name, bound) in enumerate(_bounds(likelihood).items()):
        joint = is_for_joint_moves(bound) and not several
        for moves in core if bound in BOUNDS else _turns(core, joint, turn + i)[:1]:
            if joint or not MOVES[moves].fresh:
                yield of(name, bound, moves)
        for moves in _turns(further, joint, turn + i)[:2]:
            yield of(name, bound, moves)
    if model.form.groups:
        own, *others = (name for name, moves in MOVES.items() if moves.of_groups)
        yield of("auto", "auto", own)
        for i, (name, bound) in enumerate(_bounds(likelihood).items()):
            if isinstance(bound, tuple(map(type, TANGENTS))):
                yield of(name, bound, own)
                yield of(name, bound, others[(turn + i) % len(others)])


def _turns(moves: list[str], joint: bool, turn: int) -> list[str]:
    """Return the moves that a bound allows, from another one on at each turn."""
    allowed = [name for name in moves if joint or not MOVES[name].fresh]
    start = turn % len(allowed)
    return allowed[start:] + allowed[:start]


def _bounds(likelihood: Likelihood) -> dict[str, Any]:
    """Return all bounds on a likelihood by name, those of the registry and of other settings."""
    found: dict[str, Any] = {}
    for bound in BOUNDS:
        if bound.supports(likelihood):
            found[type(bound).__name__] = bound
            if hasattr(bound, "slack"):
                found[f"{type(bound).__name__}(slack=0)"] = type(bound)(slack=0.0)
    if Taylor(order=3).supports(likelihood):
        found["Taylor(order=3)"] = Taylor(order=3)
    return found
