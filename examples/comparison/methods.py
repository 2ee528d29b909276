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
    exact : whether its draws come from the posterior.
    run : does it.
    libraries : modules that it needs beside this package's own dependencies.
    """

    label: str
    exact: bool
    run: Callable[[Task], Curve]
    libraries: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Libraries that are not installed."""
        return [name for name in self.libraries if find_spec(name) is None]


METHODS = {
    "firefly": Method("FireflyMH()", True, firefly.run_mh),
    "firefly-hmc": Method("FireflyHMC()", True, firefly.run_hmc),
    "independence": Method("independence MH, all rows", True, independence.run),
    "random-walk": Method("random-walk MH, all rows", True, subsampling.run_exact),
    "nuts": Method("NUTS, all rows (nutpie)", True, nuts.run_nuts, ("nutpie",)),
    "mhss": Method(
        "MH, scalable subsampling (PyMHSS)",
        True,
        scalable.run,
        ("PyMHSS", "jax"),
    ),
    "ecs": Method("HMCECS (NumPyro)", False, ecs.run_ecs, ("numpyro",)),
    "sgld": Method("SGLD (blackjax)", False, langevin.run_sgld, ("blackjax",)),
    "sgld-cv": Method(
        "SGLD, control variates (blackjax)",
        False,
        langevin.run_control_variates,
        ("blackjax",),
    ),
    "t-test": Method("MH, t-test", False, subsampling.run_t_test),
    "bernstein": Method("MH, Bernstein stopping", False, subsampling.run_bernstein),
    "consensus": Method(
        "consensus Monte Carlo (nutpie)", False, nuts.run_chosen_consensus, ("nutpie",)
    ),
    "svi": Method("SVI, full rank (NumPyro)", False, variational.run_numpyro, ("numpyro",)),
    "advi": Method("ADVI, mean field (PyMC)", False, variational.run_pymc),
}
