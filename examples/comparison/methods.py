"""The methods that are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from examples.comparison import (
    ecs,
    firefly,
    independence,
    langevin,
    nuts,
    scalable,
    subsampling,
    variational,
)
from examples.comparison.measurement import Curve, Task


@dataclass(frozen=True)
class Method:
    """A method, and how it is shown.

    Attributes
    ----------
    label : in tables and figures.
    exact : whether its draws have the posterior as their law.
    colour : of its curve.
    run : does it.
    libraries : modules that it needs beside this package's own dependencies.
    """

    label: str
    exact: bool
    colour: str
    run: Callable[[Task], Curve]
    libraries: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Libraries that are not installed."""
        return [name for name in self.libraries if find_spec(name) is None]


METHODS = {
    "firefly": Method("FireflyMH()", True, "C3", firefly.run_mh),
    "firefly-hmc": Method("FireflyHMC()", True, "C1", firefly.run_hmc),
    "independence": Method("independence MH, all rows", True, "0.15", independence.run),
    "random-walk": Method("random-walk MH, all rows", True, "0.45", subsampling.run_exact),
    "nuts": Method("NUTS, all rows (nutpie)", True, "0.7", nuts.run_nuts, ("nutpie",)),
    "mhss": Method(
        "MH, scalable subsampling (PyMHSS)",
        True,
        "C8",
        scalable.run,
        ("PyMHSS", "jax"),
    ),
    "ecs": Method("HMCECS (NumPyro)", False, "C4", ecs.run_ecs, ("numpyro",)),
    "sgld": Method("SGLD (blackjax)", False, "C0", langevin.run_sgld, ("blackjax",)),
    "sgld-cv": Method(
        "SGLD, control variates (blackjax)",
        False,
        "C9",
        langevin.run_control_variates,
        ("blackjax",),
    ),
    "t-test": Method("MH, t-test", False, "C2", subsampling.run_t_test),
    "bernstein": Method("MH, Bernstein stopping", False, "olive", subsampling.run_bernstein),
    "consensus": Method(
        "consensus Monte Carlo (nutpie)", False, "C5", nuts.run_chosen_consensus, ("nutpie",)
    ),
    "svi": Method("SVI, full rank (NumPyro)", False, "C6", variational.run_numpyro, ("numpyro",)),
    "advi": Method("ADVI, mean field (PyMC)", False, "plum", variational.run_pymc),
}
