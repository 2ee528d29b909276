"""All moves that steps have, by name: kernels with their settings, as the registries list them."""

from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from pymc_flymc import (
    ExplicitResampling,
    FireflyHMC,
    FireflyMALA,
    FireflyMH,
    FireflySlice,
    ImplicitResampling,
)
from pymc_flymc.sampling.adaptation import spec_of
from pymc_flymc.sampling.choice import KERNEL_NAMES
from pymc_flymc.steps.hamiltonian import METRICS
from pymc_flymc.steps.slice import DIRECTIONS

__all__ = ["MOVES", "SCHEMES", "Moves"]

#: Kernels of `FireflyMH` that draw brightness afresh, for bounds that say so.
FRESH = ("joint", "surrogate")
#: That of them which is one and the same as `FireflyHMC`.
SAME_AS_HMC = "hamiltonian"
#: That for effects of one grouping factor.
OF_GROUPS = "local"


@dataclass(frozen=True)
class Moves:
    """A step method and its settings, but for the bound.

    Attributes
    ----------
    step : type
    settings : dict
    fresh : bool
        Whether brightness is drawn afresh: for bounds with ``joint`` only.
    core : bool
        Whether each bound on each model is sampled with them; the others take turns.
    of_groups : bool
        Whether they are for models with effects of groups alone, under bounds of their own.
    """

    step: Any
    settings: dict[str, Any] = field(default_factory=dict)
    fresh: bool = False
    core: bool = False
    of_groups: bool = False

    def __call__(self, model: Any, **settings: Any) -> Any:
        """Return a step on a model."""
        with model:
            return self.step(**self.settings, **settings)


def _moves() -> dict[str, Moves]:
    found = {}
    for kernel in KERNEL_NAMES:
        if kernel not in ("auto", SAME_AS_HMC, OF_GROUPS):
            found[kernel] = Moves(FireflyMH, {"kernel": kernel}, kernel in FRESH, core=True)
    for kernel in ("joint", "metropolis"):
        for proposal in [*spec_of(kernel).adaptation.mixtures][1:]:  # the first is its own choice
            settings = {"kernel": kernel, "proposal": proposal}
            found[f"{kernel}-{proposal}"] = Moves(FireflyMH, settings, kernel in FRESH)
    for metric in METRICS:
        core = metric == "auto"
        name = "hmc" if core else f"hmc-{metric}"
        found[name] = Moves(FireflyHMC, {"metric": metric}, core=core)
    found["mala"] = Moves(FireflyMALA, core=True)
    for direction in DIRECTIONS:
        settings = {"direction": direction}
        found[f"slice-{direction}"] = Moves(FireflySlice, settings, core=direction != "isotropic")
    found[OF_GROUPS] = Moves(FireflyMH, {"kernel": OF_GROUPS}, of_groups=True)
    for name, brightness in SCHEMES.items():
        found[f"mala-{name}"] = Moves(FireflyMALA, {"brightness": brightness})
        if isinstance(brightness, ImplicitResampling):
            settings = {"kernel": OF_GROUPS, "brightness": brightness}
            found[f"{OF_GROUPS}-{name}"] = Moves(FireflyMH, settings, of_groups=True)
    return found


#: Ways to resample brightness given the parameters, but for the default.
SCHEMES: dict[str, Any] = {
    "single-q": ImplicitResampling(q=0.1),
    "three-sweeps": ImplicitResampling(ratio=1.0, sweeps=3),
    **{
        scheme: ExplicitResampling(fraction=0.2, scheme=scheme)
        for scheme in get_args(get_type_hints(ExplicitResampling)["scheme"])
    },
}
MOVES = _moves()
