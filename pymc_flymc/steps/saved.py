"""What is saved of a step: its chain's state, and what other processes receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pymc_flymc.compat.pymc import CONSTRUCTION, SavedState

if TYPE_CHECKING:
    from pymc_flymc.anchor.anchor import Anchor
    from pymc_flymc.sampling.chain import FireflyChain
    from pymc_flymc.sampling.sampler import Sampler
    from pymc_flymc.sampling.tuning import Tuning

#: Attributes that are not pickled.
_STAYS = CONSTRUCTION, "_chain", "_model", "_fingerprint", "_asked", "_source", "_journal"


@dataclass_state
class FireflyState(StepMethodState):
    """What a saved sampling state holds; see `FireflyChain.save`."""

    tune: bool
    tuning: Tuning | None = field(default=None)
    chain_state: dict[str, Any] | None = field(default=None)


class SavableStep(SavedState):
    """A step whose chain can be saved, and that is pickled without the model."""

    saved_state = FireflyState
    _chain: FireflyChain | None
    sampler: Sampler
    data: str
    prepared: str
    _refresh: Callable[..., None]

    @property
    def chain_state(self) -> dict[str, Any] | None:
        """Return the state of the running chain, a part of `sampling_state`."""
        if self._chain is None:
            return None
        return self._chain.save() | {"data": self.data, "prepared": self.prepared}

    @chain_state.setter
    def chain_state(self, saved: dict[str, Any] | None) -> None:
        # With other data, the saved brightness has no meaning: the chain starts again.
        if saved is None or saved["data"] != self.data:
            self._chain = None
            return
        # With another bound other rows are bright, and other kernels have other parameters.
        if saved["prepared"] != self.prepared:
            raise ValueError(
                f"{type(self).__name__}: a sampling state is for a step with the settings of the "
                "one that it was taken from: the same moves, bounds and anchor"
            )
        anchor = saved["anchor"]
        if self._chain is None or not _same(self._chain.anchor, anchor):
            self._chain = self.sampler.new_chain(anchor)
        self._chain.restore(saved)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle without the model, which holds the data: they are sent as a file."""
        self._refresh(in_place=True)
        state = {k: v for k, v in self.__dict__.items() if k not in _STAYS}
        return _rebuild, (type(self), state, self.chain_state)


def _rebuild(cls: type, state: dict[str, Any], chain_state: dict[str, Any] | None) -> Any:
    step: Any = object.__new__(cls)
    step.__dict__.update(state)
    step._chain = step._model = step._journal = None
    step.chain_state = chain_state
    return step


def _same(a: Anchor | None, b: Anchor | None) -> bool:
    """Return whether the anchors of two chains are the same, or both missing."""
    if a is None or b is None:
        return a is b
    return np.array_equal(a.theta, b.theta) and np.array_equal(a.w, b.w)
